"""The header's poll reports new and cleared alerts, and the overview agrees with it."""

import datetime as dt
import re

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from replview.features.alerts.built_in import ensure
from replview.features.alerts.header import RecentAlert, read_news
from replview.health.states import Level
from replview.store.models import Alert, AlertRule, Source
from replview.ui import shell
from tests.support.scene import Scene


def alert(kind: str, name: str, ago: float = 1, **values: object) -> Alert:
    ensure()
    rule = AlertRule.objects.filter(kind=kind)[0]
    at = timezone.now() - dt.timedelta(seconds=ago)
    known = {"subject": name, "state": "firing", "began_at": at, "fired_at": at,
             "message": f"{name} is <b>not</b> well.", "detail": {"name": name},
             "rule_was": {"name": rule.name, "severity": rule.severity}}  # fmt: skip
    return Alert.objects.create(rule=rule, **(known | values))


def news() -> list[RecentAlert]:
    cache.clear()
    return read_news()


def test_what_fired_and_what_is_over_lately_is_news(scene: Scene) -> None:
    old = alert("lag", "old", ago=300)
    new = alert("lag", "new")
    fired = RecentAlert(
        key=f"{new.pk}-firing", at=new.fired_at, level=Level.LOOK, over=False,
        words="new is <b>not</b> well.", url=f"/alerts/{new.pk}/",
    )  # fmt: skip
    assert news() == [fired]

    Alert.objects.filter(pk=old.pk).update(state="cleared", cleared_at=timezone.now())
    first, second = news()
    assert first == fired
    assert (second.key, second.level, second.over) == (f"{old.pk}-cleared", Level.OK, True)
    assert "old: over after" in second.words
    # An alert that never fired is not reported.
    alert("lag", "pending", state="pending", fired_at=None)
    assert len(news()) == 2


def test_the_poll_renders_the_news(signed_in: Client, scene: Scene) -> None:
    new = alert("lag", "new")
    cache.clear()
    text = signed_in.get("/shell/health/").content.decode()
    assert re.findall(r'data-news="([^"]+)"[^>]*>([^<]*)<', text) == [
        (f"{new.pk}-firing", "new is &lt;b&gt;not&lt;/b&gt; well.")
    ]
    assert 'data-level="look"' in text


def test_all_open_pages_share_one_reading_and_only_who_is_signed_in_gets_it(
    signed_in: Client, scene: Scene, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:

    def asked() -> str:
        # Durations are left out, since they grow between two requests.
        return re.sub(r"\d+", "", signed_in.get("/shell/health/").content.decode())

    first = asked()
    with django_assert_max_num_queries(4):  # sessions and users
        assert signed_in.get("/shell/health/?slot=shop/replview").status_code == 200
        assert asked() == first
        assert Client().get("/shell/health/").status_code == 302


def test_the_poll_makes_no_address_for_each_of_all_slots(
    signed_in: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll builds no stream addresses: it lists no slots, and there may be a thousand."""
    made: list[object] = []
    address = shell.stream_url
    monkeypatch.setattr(shell, "stream_url", lambda slot: made.append(slot) or address(slot))

    assert signed_in.get("/shell/health/?slot=shop/replview").status_code == 200
    assert made == []
    signed_in.get("/")
    assert len(made) >= len(scene.slots)


def test_nothing_to_do_is_not_said_while_an_alert_fires(signed_in: Client, scene: Scene) -> None:
    Source.objects.exclude(name="warehouse").delete()
    page = signed_in.get("/").context["page"]
    assert page.sentence.cause.endswith("Nothing to do.")
    assert (page.action_url, page.action_label) == ("", "")

    alert("schema_change", "public.orders of warehouse/replview")

    page = signed_in.get("/").context["page"]
    assert "Nothing to do" not in page.sentence.cause
    assert (page.sentence.level, page.sentence.title) == ("look", "1 alert needs a look.")
    assert (page.action_url, page.action_label) == ("/alerts/", "Open the alerts")
