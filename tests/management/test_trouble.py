"""``replview trouble``: only in a demo, and what it says."""

import json

import pytest
from django.core.management.base import CommandError

from replview.store import demo_troubles as troubles
from replview.store.demo_troubles import TroubleState


def test_elsewhere_it_refuses(run) -> None:
    with pytest.raises(CommandError, match="no demo"):
        run("trouble", "start", "flood")
    assert troubles.wanted() == set()


def test_without_the_process_it_asks_nobody(run, settings) -> None:
    settings.DEMO = True
    with pytest.raises(CommandError, match="does not answer"):
        run("trouble", "start", "flood")
    assert troubles.wanted() == set()


def test_it_asks_and_lists(run, settings) -> None:
    settings.DEMO = True
    troubles.report_alive()
    assert "asked to begin" in run("trouble", "start", "flood", "--no-wait")
    assert troubles.wanted() == {"flood"}
    troubles.report_state("flood", TroubleState.ON)

    told = {row["name"]: row["state"] for row in json.loads(run("trouble", "list", format="json"))}
    assert list(told) == list(troubles.NAMES)
    assert (told["flood"], told["lost-slot"]) == ("on", "off")
