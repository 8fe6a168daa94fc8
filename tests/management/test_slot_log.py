"""``replview slot log``."""

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from decoder.scalars import LSN
from replview.store.models import Slot, SlotEvent, Source


@pytest.fixture
def slot(db) -> Slot:
    """shop/mine, without a log."""
    source = Source.objects.create(name="shop", conninfo="host=shop.example")
    return Slot.objects.create(source=source, name="mine")


def write(slot: Slot, message: str, kind: str = "connected", ago: int = 0, **values) -> SlotEvent:
    at = timezone.now() - timedelta(seconds=ago)
    return SlotEvent.objects.create(slot=slot, kind=kind, message=message, at=at, **values)


def test_the_newest_line_is_the_last(run, slot: Slot) -> None:
    write(slot, "Connected at 0/1.", ago=20)
    write(slot, "Something is missing.", "gap", 10, lsn=LSN.parse("0/1B2C3D8"))

    first, second = run("slot", "log", "shop", "mine").splitlines()
    assert first.endswith("connected     Connected at 0/1.")
    assert second.endswith("gap           Something is missing. [0/1B2C3D8]")


def test_as_json_it_is_an_object_a_line(run, slot: Slot) -> None:
    write(slot, "Connected.", ago=10, detail={"a": 1})
    write(slot, "Gap.", "gap", lsn=LSN.parse("0/1B2C3D8"))

    lines = run("slot", "log", "shop", "mine", "--format", "json").splitlines()
    first, second = map(json.loads, lines)
    assert (first["kind"], first["detail"], first["lsn"]) == ("connected", {"a": 1}, None)
    assert (second["slot"], second["source"], second["lsn"]) == ("mine", "shop", "0/1B2C3D8")
    assert second["at"].endswith("Z")


def test_it_is_narrowed_and_bounded(run, slot: Slot) -> None:
    for number in range(5):
        write(slot, f"Line {number}.", "gap" if number % 2 else "connected", ago=10 - number)

    assert "Line 4." in run("slot", "log", "shop", "mine", "--lines", "1")
    assert len(run("slot", "log", "shop", "mine", "--kind", "gap").splitlines()) == 2
    assert "no event of this kind" in run("slot", "log", "shop", "mine", "--kind", "failover")
    with pytest.raises(CommandError, match="0 or more"):
        run("slot", "log", "shop", "mine", "--lines", "-1")


def test_an_empty_log_says_so(run, slot: Slot) -> None:
    assert "no events yet" in run("slot", "log", "shop", "mine")
    with pytest.raises(CommandError, match="there is no slot"):
        run("slot", "log", "shop", "nobody")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_follow_goes_on_until_stopped(slot: Slot, store_cluster) -> None:
    write(slot, "Before.")
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "replview.settings",
        "REPLVIEW_STORE_URL": store_cluster.dsn(connection.settings_dict["NAME"]),
        "PYTHONUNBUFFERED": "1",
    }
    words = [sys.executable, "-m", "django", "slot", "log", "shop", "mine", "--follow"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        assert "Before." in command.stdout.readline()
        write(slot, "After.", "gap")
        assert "After." in command.stdout.readline()
        command.send_signal(signal.SIGINT)
        rest, _ = command.communicate(timeout=20)
    assert (rest, command.returncode) == ("", 130)
