"""The lag page: what its address means, what its data hold, its file, and its policy."""

import csv
import datetime as dt
import io
import json
import re
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import plotly
import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client

from replview.features.lag.charts import read_table_rates, read_transaction_sizes
from replview.features.lag.page import LagPage, find_lag_slots, lag_page
from replview.health.fleet import read_fleet
from replview.store.models import (
    Alert,
    AlertRule,
    Relation,
    RelationMinute,
    SlotEvent,
    TransactionSizeMinute,
    WatchedSlot,
)
from replview.ui.charts.query import CHARTS, RANGES, LagQuery
from tests.support.content_policy import directives
from tests.support.scene import GB, Scene
from tests.support.watched_scene import watch

SECOND = dt.timedelta(seconds=1)


def sample(slot_id: int, at: dt.datetime, **values: object) -> None:
    names = ", ".join(["slot_id", "sampled_at", *values])
    places = ", ".join(["%s"] * (2 + len(values)))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO slot_sample ({names}) VALUES ({places})", [slot_id, at, *values.values()]
        )


def data(client: Client, query: str) -> dict:
    response = client.get(f"/lag/data?{query}")
    assert response.status_code == 200
    return json.loads(response.content)


def page_of(text: str) -> LagPage:
    """Return the page of an address."""
    query = LagQuery.of(QueryDict(text))
    return lag_page(query, find_lag_slots(query.slots), read_fleet())


def test_an_address_says_all_and_comes_back_the_same() -> None:
    text = "slot=a/b&slot=c/d&range=24h&from=2026-11-20T05:00Z&to=2026-11-20T06:00Z&charts=lag,spill&table=1"  # noqa: E501
    query = LagQuery.of(QueryDict(text))

    assert query.charts == ("lag", "spill")
    assert not query.live
    assert query.stretch(dt.datetime.now(dt.UTC))[0].hour == 5
    assert LagQuery.of(QueryDict(query.words())) == query


@pytest.mark.parametrize(
    "text", ["from=x&to=y", "from=2026-01-02&to=2026-01-01", "from=1h&to=1h", "to=nonsense"]
)
def test_what_is_no_piece_of_time_is_left_out_and_said(text: str) -> None:
    query = LagQuery.of(QueryDict(f"{text}&range=week&charts=nothing"))

    assert query.misread == ("range", "charts", "from and to")
    assert query.live
    assert query.range in RANGES


@pytest.mark.parametrize(
    ("minutes", "opened"), [(2, "5m"), (6, "15m"), (20, "1h"), (90, "1h"), (None, "1h")]
)
def test_it_opens_with_the_shortest_range_that_covers_the_record(
    signed_in: Client, scene: Scene, minutes: int | None, opened: str
) -> None:
    slot = scene.slots["shop/replview"]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample")
    for ago in range(minutes or 0):
        sample(slot.pk, scene.now - (ago + 1) * 60 * SECOND, retained_wal_bytes=5)

    page = signed_in.get("/lag/?slot=shop/replview").context["page"]
    assert page.query.range == opened
    assert page.data_query == f"slot=shop/replview&range={opened}"

    chosen = signed_in.get("/lag/?slot=shop/replview&range=24h").context["page"]
    assert chosen.query.range == "24h"


def test_without_a_source_it_says_what_to_do(signed_in: Client) -> None:
    page = signed_in.get("/lag/").content.decode()

    assert "No samples yet." in page
    assert "replview source add" in page
    assert signed_in.get("/lag/data?slot=a/b").status_code == 404


def test_the_page_names_its_slot(scene: Scene) -> None:
    page = page_of("slot=billing-eu/replview_billing&slot=no/such&range=24h")

    assert page.sentence.level == "now"
    assert page.sentence.title.startswith("replview_billing will be lost in about")
    assert page.slot_url == "/slots/billing-eu/replview_billing/"
    assert (page.names, page.missing) == (("billing-eu/replview_billing",), ("no/such",))
    assert page.own == "billing-eu/replview_billing"
    assert page.sources == (scene.sources["billing-eu"].pk,)
    assert [word for word, _, _, chosen in page.ranges if chosen] == ["24h"]
    assert page.data_query == "slot=billing-eu/replview_billing&range=24h"
    on = [slot.name for group in page.choices for slot in group.slots if slot.on]
    assert on == ["billing-eu/replview_billing"]


def test_the_sentence_of_several_slots_is_that_of_the_worst(scene: Scene) -> None:
    page = page_of("slot=shop/replview&slot=billing-eu/replview_billing")
    assert page.sentence.title.startswith("Worst of 2: replview_billing will be lost in about")
    assert page.slot_url == "/slots/billing-eu/replview_billing/"

    unknown = page_of("slot=no/such")
    assert (unknown.sentence.level, unknown.slot_url) == ("unknown", "")
    assert unknown.sentence.cause == "It is gone, or was never sampled."


def test_the_page_is_rendered_and_asks_nothing_from_elsewhere(
    signed_in: Client, scene: Scene
) -> None:
    evil = "<img src=x onerror=alert(1)>"
    WatchedSlot.objects.create(id=997, source=scene.sources["shop"], name=evil)
    response = signed_in.get("/lag/?slot=billing-eu/replview_billing&slot=no/such&range=24h")
    page = response.content.decode()

    assert "replview_billing will be lost in about" in page
    assert "There is no slot no/such: left out." in page
    assert 'data-range="24h" aria-current="true"' in page
    assert 'href="/lag/csv?slot=billing-eu/replview_billing&amp;range=24h"' in page
    assert evil not in page
    assert escape(evil) in page
    # plotly finds its rules in our style sheet, and writes none: the policy is that of any page.
    assert 'id="plotly.js-style-global" class="no-inline-styles"' in page
    (taken,) = re.findall(r'<meta id="(\w+)" name="plotly-maps"', page)
    bundle = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    assert f'getElementById("{taken}")' in bundle.read_text(), "another plotly.js: another name"
    policy = directives(response["Content-Security-Policy"])
    assert policy["style-src"] == policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws://testserver"
    assert page.count("plotly.min.js") == 1
    assert "plotly" not in signed_in.get("/slots/").content.decode()


def test_data_are_charts_with_their_values(signed_in: Client, scene: Scene) -> None:
    slot = scene.slots["shop/replview"]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample")
    SlotEvent.objects.all().delete()
    sample(slot.pk, scene.now - 3 * SECOND, retained_wal_bytes=7 * GB, active=True)
    SlotEvent.objects.create(slot=slot, at=scene.now - 60 * SECOND, kind="schema",
                             message="New version.", detail={"table": "public.orders"})  # fmt: skip

    found = data(signed_in, f"slot=shop/replview&range=5m&charts={','.join(CHARTS)}")

    assert [chart["key"] for chart in found["charts"]] == list(CHARTS)
    retained = found["charts"][0]["figure"]["data"][-1]
    assert retained["y"][-1] == 7 * GB
    assert retained["x"][-1] == round((scene.now - 3 * SECOND).timestamp() * 1000)
    assert [(event["word"], event["shape"]) for event in found["events"]] == [
        ("schema: orders", "diamond")
    ]
    assert (found["live"], found["period"], found["step_seconds"]) == (True, "raw", 5)


def test_slots_that_are_not_ours_are_drawn_with_their_alerts(
    signed_in: Client, scene: Scene
) -> None:
    other = WatchedSlot.objects.create(
        id=999, source=scene.sources["shop"], name="standby", slot_type="physical"
    )
    sample(other.pk, scene.now - 3 * SECOND, retained_wal_bytes=5)
    rule = AlertRule.objects.create(kind="slot_inactive", name="Inactive")
    Alert.objects.create(
        rule=rule, subject="slot:999", slot=other, state="firing", message="Idle.",
        began_at=scene.now, fired_at=scene.now - SECOND,
    )  # fmt: skip

    found = data(signed_in, "slot=shop/replview&slot=shop/standby&range=5m")

    names = [trace["name"] for trace in found["charts"][0]["figure"]["data"]]
    assert names == ["shop/replview", "shop/standby"]
    alerts = [event["slot"] for event in found["events"] if event["kind"] == "alert"]
    assert alerts == ["shop/standby"]
    assert found["charts"][0]["figure"]["data"][1]["y"] == [5]


def test_the_file_holds_what_is_shown(signed_in: Client, scene: Scene) -> None:
    slot = scene.slots["shop/replview"]
    sample(slot.pk, scene.now - 3 * SECOND, unconfirmed_wal_bytes=5)
    WatchedSlot.objects.create(id=998, source=scene.sources["shop"], name="=evil")

    response = signed_in.get("/lag/csv?slot=shop/replview&range=5m&charts=unconfirmed,lag")
    body = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
    rows = list(csv.DictReader(io.StringIO(body)))

    assert response["Content-Type"].startswith("text/csv")
    known = [row for row in rows if row["value"]]
    assert [(row["slot"], row["chart"], row["value"], row["unit"]) for row in known] == [
        ("shop/replview", "Unconfirmed WAL", "5", "bytes")
    ]
    assert {row["line"] for row in rows} == {"unconfirmed", "write", "flush", "replay"}


def test_commits_are_drawn_as_a_rate(signed_in: Client, scene: Scene) -> None:
    slot = scene.slots["shop/replview"]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample")
    for ago, stored in ((15, 100), (10, 200), (5, 260)):
        sample(slot.pk, scene.now - ago * SECOND, transactions_stored=stored)

    [chart] = data(signed_in, "slot=shop/replview&range=5m&charts=commits")["charts"]

    assert (chart["title"], chart["unit"]) == ("Commits", "commits/s")
    assert chart["figure"]["data"][0]["y"] == [None, 20, 12]


def test_every_link_of_the_page_leads_to_a_page(signed_in: Client, scene: Scene) -> None:
    for word in RANGES:
        url = LagQuery(slots=("shop/replview",)).url(range=word)
        assert parse_qs(urlsplit(url).query)["range"] == [word]
        assert signed_in.get(url).status_code == 200


def test_the_record_s_tables_by_pace_and_transactions_by_size(scene: Scene) -> None:
    slot = scene.slots["shop/replview"]
    incarnation = slot.incarnation
    assert incarnation is not None
    minute = scene.now.replace(second=0, microsecond=0) - 600 * SECOND
    for number in range(10):
        relation = Relation.objects.create(
            slot=slot, system_identifier="7", oid=number, schema="public", table=f"t{number}"
        )
        RelationMinute.objects.create(
            incarnation_id=incarnation.pk, relation_id=relation.pk, minute=minute,
            changes=60 * (10 - number),
        )  # fmt: skip
    TransactionSizeMinute.objects.create(
        incarnation_id=incarnation.pk, minute=minute, power=3, transactions=5
    )
    since = scene.now - 3600 * SECOND

    rates = read_table_rates(slot.pk, "changes", since, scene.now)

    names = [name for name, _ in rates.tables]
    assert names == [*(f"public.t{number}" for number in range(8)), "others"]
    assert [max(values) for _, values in rates.tables] == [10, 9, 8, 7, 6, 5, 4, 3, 3]
    assert read_transaction_sizes(slot.pk, since, scene.now) == {3: 5}
    assert read_table_rates(slot.pk, "bytes", since, scene.now).tables == []


def checkpoints(source_id: int, moments: list[dt.datetime]) -> None:
    """Each seen by two looks."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO source_sample (source_id, sampled_at, reachable, checkpointed_at)"
            " VALUES (%s, %s, true, %s)",
            [(source_id, at + after * SECOND, at) for at in moments for after in (20, 20.5)],
        )


def test_checkpoints_stand_on_the_axis_once_and_too_many_are_counted(
    signed_in: Client, scene: Scene
) -> None:
    slot = scene.slots["shop/replview"]
    moments = [scene.now - minutes * 60 * SECOND for minutes in (10, 20, 30)]
    checkpoints(slot.source_id, moments)

    hour = data(signed_in, f"slot={slot}&range=1h")
    told = [event for event in hour["events"] if event["kind"] == "checkpointed"]
    assert [event["at"] for event in told] == sorted(round(at.timestamp() * 1000) for at in moments)
    assert not any(event["bad"] for event in told)

    checkpoints(slot.source_id, [scene.now - seconds * SECOND for seconds in range(100, 170)])
    hour = data(signed_in, f"slot={slot}&range=1h")
    assert hour["checkpoints"] == 73
    assert not any(event["kind"] == "checkpointed" for event in hour["events"])


def test_a_slots_own_page_has_room_for_its_charts_and_where_they_come_from(
    signed_in: Client, scene: Scene
) -> None:
    slot = scene.slots["shop/replview"]
    other = watch(scene, slot.source, "debezium")
    for name in (str(slot), str(other)):
        page = signed_in.get(f"/slots/{name}/").content.decode()
        [url] = re.findall(r'data-data="([^"]+)"', page)
        assert page.count("lag-waiting") - page.count("lag-waiting-title") == 3
        assert f"/lag/?slot={name}&amp;range=1h" in page
        drawn = signed_in.get(unescape(url)).json()
        assert [chart["key"] for chart in drawn["charts"]] == ["retained", "lag", "throughput"]
