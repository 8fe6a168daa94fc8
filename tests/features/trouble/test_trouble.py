"""The *make trouble* page: in demos only, and what it asks for."""

import datetime as dt

import pytest
from django.test import Client

from replview.demo.trouble.maker import KINDS as TROUBLES
from replview.features.alerts.kinds import KINDS
from replview.features.alerts.kinds.schema_change import RESTS_AFTER
from replview.features.trouble.views import TROUBLE_TEXTS, build_page
from replview.store import demo_troubles as troubles
from replview.store.demo_troubles import TroubleState
from replview.store.models import Setting


def _text(response) -> str:
    return response.content.decode()


@pytest.fixture
def demo(settings) -> None:
    """This instance is a demo, and its process for trouble runs."""
    settings.DEMO = True


def test_every_trouble_names_kinds_of_rules_that_exist() -> None:
    shown = {kind for text in TROUBLE_TEXTS.values() for kind in text.kinds}
    made = {rule["kind"] for trouble in TROUBLES for rule in trouble.rules}

    assert shown | made <= KINDS.keys()


def test_elsewhere_there_is_no_such_page(signed_in: Client) -> None:
    assert signed_in.get("/trouble/").status_code == 404
    assert signed_in.post("/trouble/flood/start/").status_code == 404
    assert "Make trouble" not in _text(signed_in.get("/"))
    assert not Setting.objects.filter(name__startswith="trouble.").exists()


def test_a_button_asks_for_it_and_then_for_its_end(signed_in: Client, demo) -> None:
    troubles.report_alive()
    answer = signed_in.post("/trouble/flood/start/")
    assert answer["Location"] == "/trouble/#flood"
    assert troubles.wanted() == {"flood"}
    states = {card.trouble.name: card.state for card in build_page().cards}
    assert states["flood"] == "asked for"

    troubles.report_state("flood", TroubleState.ON)
    sentence = build_page().sentence
    assert (sentence.level, sentence.title) == ("look", "1 trouble now.")
    page = _text(signed_in.get("/trouble/"))
    assert "1 trouble now." in page
    assert "/trouble/flood/end/" in page
    assert "/trouble/flood/start/" not in page
    signed_in.post("/trouble/flood/end/")
    assert troubles.wanted() == set()


def test_what_is_no_trouble_is_not_found(signed_in: Client, demo) -> None:
    assert signed_in.post("/trouble/earthquake/start/").status_code == 404
    assert signed_in.post("/trouble/flood/double/").status_code == 404
    assert signed_in.get("/trouble/flood/start/").status_code == 405


def test_nobody_there_to_hear_is_said(signed_in: Client, demo) -> None:
    page = build_page()
    assert not page.alive
    assert (page.sentence.level, page.sentence.title) == ("unknown", "Troubles are not available.")

    rendered = _text(signed_in.get("/trouble/"))
    assert "does not answer" in rendered
    assert rendered.count("disabled") >= len(troubles.NAMES)


def test_the_navigation_and_the_overview_lead_there(signed_in: Client, demo, scene) -> None:
    page = _text(signed_in.get("/"))

    assert page.count('href="/trouble/"') >= 2
    assert "Make trouble" in _text(signed_in.get("/slots/"))


def test_it_says_when_the_alert_of_a_schema_change_ends(signed_in: Client, demo) -> None:
    page = _text(signed_in.get("/trouble/"))

    assert dt.timedelta(minutes=10) == RESTS_AFTER
    assert "ends ten minutes after the last change, or when somebody marks it as seen." in page
