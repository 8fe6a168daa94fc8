"""The pages of alerts: what fires, what is over, one alert, and that somebody has seen it."""

import datetime as dt
import re
from html import escape
from urllib.parse import urlencode, urlsplit

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from replview.features.alerts.built_in import BUILT_IN
from replview.features.alerts.lines import AlertLine
from replview.features.alerts.page import AlertsPage, read_alerts_page, wanted_of
from replview.health.states import Level
from replview.runtime import celery_settings
from replview.store import instance_settings
from replview.store.models import Alert, AlertRule, Relation, Source, WatchedSlot
from replview.ui.sentence import Sentence
from tests.features.alerts.conftest import page
from tests.support.alerted_source import GB, Sampled
from tests.support.people import make_user


@pytest.fixture
def firing(sampled: Sampled) -> Sampled:
    """A lost slot of somebody else's, and WAL over half of what may be."""
    sampled.now = timezone.now() - dt.timedelta(minutes=2)
    Source.objects.update(name="shop <b>")
    sampled.watched.refresh_from_db()
    sampled.source.refresh_from_db()
    sampled.sample(retained_wal_bytes=6 * GB)
    sampled.other("debezium", wal_status="lost")
    sampled.sample()
    return sampled


def alerts_page(query: str = "") -> AlertsPage:
    return read_alerts_page(wanted_of(QueryDict(query)))


def rule_names(lines: list[AlertLine]) -> list[str]:
    return [line.rule_name for line in lines]


def test_nothing_fires(sampled: Sampled) -> None:
    assert alerts_page().sentence.title == "No alert rule is on."
    sampled.now = timezone.now()
    sampled.sample()
    assert alerts_page().sentence == Sentence(
        level=Level.OK,
        title="No alert is firing.",
        cause=f"{len(BUILT_IN)} rules on, evaluated every five seconds.",
    )
    assert alerts_page().worst_url == ""
    assert celery_settings.beat_schedule["do-chores"]["schedule"] == 5.0


def test_the_page_renders(signed_in, firing: Sampled) -> None:
    instance_settings.write("alerts.evaluated_at", timezone.now().isoformat(), "")
    shown = page(signed_in, "/alerts/")
    assert "1 alert needs you now." in shown
    assert "shop &lt;b&gt;/debezium is lost: the source removed WAL" in shown
    assert "shop <b>" not in shown
    assert shown.index(">Slot lost</a>") < shown.index(">Retained WAL over half its limit</a>")
    assert "60 %" in shown
    worst = alerts_page().worst_url
    assert f'href="{worst}">Open the most severe</a>' in re.sub(r" ?(?=[<>])", "", shown)
    navigation = shown[shown.index('data-count="alerts"') :][:120]
    assert '<span class="nav-danger">2' in navigation
    shown = page(signed_in, "/shell/health/")
    assert re.search(r"""\[data-count="alerts"\]' ?><span class="nav-danger">2""", shown)
    assert "with these filters" in page(signed_in, "/alerts/?slot=shop/none")


def test_what_fires_is_listed_worst_first(firing: Sampled) -> None:
    instance_settings.write("alerts.evaluated_at", timezone.now().isoformat(), "")
    shown = alerts_page()
    assert (shown.sentence.level, shown.sentence.title) == (Level.NOW, "1 alert needs you now.")
    lost, share = shown.firing
    assert rule_names(shown.firing) == ["Slot lost", "Retained WAL over half its limit"]
    assert lost.sentence.startswith("shop <b>/debezium is lost: the source removed WAL")
    assert share.value.replace("\xa0", " ") == "60 %"
    assert shown.worst_url == lost.url


def test_that_nobody_evaluates_is_said(firing: Sampled) -> None:
    shown = alerts_page()
    assert shown.sentence.title.startswith("Unknown: alerts have not been evaluated for 1")
    assert (shown.sentence.level, shown.worst_url) == (Level.UNKNOWN, "")


def test_history_with_values_filters_and_pages(signed_in, firing: Sampled) -> None:
    firing.sample(retained_wal_bytes=0)
    shown = alerts_page()
    assert rule_names(shown.history) == ["Retained WAL over half its limit"]
    assert shown.history[0].duration.replace("\xa0", " ") == "10 s"
    shown = page(signed_in, "/alerts/")
    assert "Retained WAL over half its limit" in shown[shown.index('id="history-title"') :]
    narrowed = alerts_page("kind=slot_lost")
    assert (rule_names(narrowed.firing), narrowed.history) == (["Slot lost"], [])
    narrowed = alerts_page("slot=shop/none")
    assert (narrowed.firing, narrowed.history) == ([], [])
    narrowed = alerts_page(urlencode({"slot": str(firing.slot), "range": "1h"}))
    assert rule_names(narrowed.history) == ["Retained WAL over half its limit"]
    for wrong in (
        "rule=x",
        "kind=x",
        "range=x",
        "after=x~y",
        "after=2026-01-01~1",
        f"rule={10**30}",
        "after=2026-11-20T07:00:00%2B00:00~99999999999999999999",
        "slot=%00",
    ):
        page(signed_in, f"/alerts/?{wrong}")

    alert = Alert.objects.get(state="cleared")
    for number in range(60):
        alert.pk, alert.fired_at = None, firing.now - dt.timedelta(minutes=number + 1)
        alert.save(force_insert=True)
    first = alerts_page()
    assert (len(first.firing), len(first.history), first.more) == (1, 50, True)
    second = alerts_page(urlsplit(first.following_url).query)
    assert (len(second.firing), len(second.history), second.more) == (1, 11, False)
    shown = page(signed_in, "/alerts/")
    assert escape(first.following_url) in shown
    assert shown.count('<tr id="alert-') == 51
    assert "Earlier alerts" not in page(signed_in, second.wanted.url(after=second.wanted.after))


def test_the_number_of_queries_does_not_grow(signed_in, firing: Sampled) -> None:
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page(signed_in, "/alerts/")
        return len(queries)

    few = count()
    for number in range(20):
        firing.other(f"slot_{number}", wal_status="lost")
    firing.sample()
    assert count() == few


def test_one_alert_says_what_the_values_were_and_what_to_do(signed_in, firing: Sampled) -> None:
    alert = Alert.objects.get(rule__key="share_look")
    shown = page(signed_in, f"/alerts/{alert.pk}/")
    assert "(6 GB of 10 GB)" in shown
    assert "<dd>60 % <span" in shown
    assert "Let its consumer continue, raise the limit, or drop the slot." in shown
    assert "/lag/?slot=shop+%3Cb%3E/replview&amp;from=" in shown
    assert "/slots/shop%20%3Cb%3E/replview/" in shown
    assert "no webhook receives this alert" in shown
    page(signed_in, "/alerts/99999999999999999999/", 404)
    pending = Alert.objects.create(rule=alert.rule, subject="x", began_at=firing.now)
    page(signed_in, f"/alerts/{pending.pk}/", 404)


def test_an_alert_is_marked_as_seen_and_an_event_is_over_with_that(
    signed_in, sampled: Sampled
) -> None:
    sampled.now = timezone.now()
    sampled.sample(retained_wal_bytes=6 * GB)
    relation = Relation.objects.create(
        slot=sampled.slot, system_identifier="1", oid=7, schema="public", table="orders"
    )
    sampled.slot.events.create(
        kind="schema", message="Schema of public.orders changed: version 2.",
        detail={"relation_id": relation.pk, "version_id": 1}, at=timezone.now(),
    )  # fmt: skip
    AlertRule.objects.update(created_at=sampled.now - dt.timedelta(hours=1))
    sampled.now = timezone.now()
    sampled.sample()
    share, schema = Alert.objects.order_by("pk")
    assert f"/relations/{relation.pk}/" in page(signed_in, f"/alerts/{schema.pk}/")

    assert signed_in.post("/alerts/seen/").status_code == 302

    share.refresh_from_db()
    schema.refresh_from_db()
    assert (share.state, share.seen_by) == ("firing", "alice")
    assert (schema.state, schema.seen_by) == ("cleared", "alice")
    assert sampled.slot.events.latest("pk").message == (
        "Schema change, public.orders of shop/replview: over because alice has seen it."
    )
    assert signed_in.post(f"/alerts/{share.pk}/seen/").status_code == 302
    assert signed_in.post("/alerts/123456/seen/").status_code == 404


@pytest.mark.parametrize(
    "url", ["/alerts/", "/alerts/rules/", "/alerts/webhooks/", "/alerts/rules/new/?kind=lag"]
)
def test_only_for_those_who_signed_in(client, db, url: str) -> None:
    assert client.get(url).status_code == 302
    assert client.post("/alerts/seen/").status_code == 302
    assert client.post("/alerts/rules/try/").status_code == 302


def test_posts_are_refused_without_their_token(firing: Sampled) -> None:
    from django.test import Client

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(make_user("eve"))
    rule = AlertRule.objects.first()
    for url in (
        "/alerts/seen/",
        f"/alerts/rules/{rule.pk}/",
        "/alerts/rules/try/",
        f"/alerts/rules/{rule.pk}/change/",
        "/alerts/webhooks/",
    ):
        assert strict.post(url).status_code == 403
    assert WatchedSlot.objects.exists()
