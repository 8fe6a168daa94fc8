"""The overview: which source is worst, what to do first, figures, what is open, what happened."""

import re
from datetime import timedelta
from html import escape

from django.core.cache import cache
from django.db import connection
from django.test import Client

from replview.features.overview.page import OverviewPage, build_overview_page
from replview.health.fleet import read_fleet
from replview.health.states import Level
from replview.store.models import Source, Transaction
from tests.support.page_elements import spaced
from tests.support.scene import Scene


def page_of() -> OverviewPage:
    return build_overview_page(read_fleet())


def names(page: OverviewPage) -> list[str]:
    return [view.source.name for view, _ in page.rows]


def test_sources_are_listed_worst_first(scene: Scene) -> None:
    assert names(page_of()) == ["billing-eu", "crm", "shop-replica", "shop", "warehouse"]


def test_the_sentence_says_what_to_do_first(scene: Scene) -> None:
    page = page_of()
    assert (page.sentence.level, page.sentence.title) == (
        Level.NOW, "1 of 5 sources needs you now.",
    )  # fmt: skip
    assert "replview_billing will be lost in about" in page.sentence.cause
    assert page.sentence.next
    assert page.action_url == "/slots/billing-eu/replview_billing/"
    assert page.action_label == "Open replview_billing"
    loss = page.figures[0]
    assert (loss.label, loss.main, loss.danger) == ("Shortest time to loss", True, True)


def test_unknown_is_not_zero(scene: Scene) -> None:
    (view,) = (view for view, _ in page_of().rows if view.source.name == "shop-replica")
    assert re.match(r"Unknown for [45]\d", view.health.title)
    assert not view.present_known
    assert view.transactions_per_second is None
    retained, commits = page_of().figures[1:3]
    assert (retained.rest, commits.rest) == ("4 of 5 sources", "4 of 5 sources")


def test_where_all_is_well_there_is_nothing_to_do(scene: Scene) -> None:
    Source.objects.exclude(name__in=["shop", "warehouse"]).delete()
    page = page_of()
    assert page.sentence.title == "All 2 sources are caught up."
    assert page.sentence.cause.endswith("Nothing to do.")
    assert (page.action_url, page.action_label) == ("", "")
    assert page.figures[0].number == "none at risk"


def test_a_source_without_slots_is_where_its_own_trouble_leads(scene: Scene) -> None:
    Source.objects.exclude(name="shop-replica").delete()
    source = Source.objects.get()
    source.slots.all().delete()
    Source.objects.update(problem_code="unreachable", problem_cause="no answer")
    page = page_of()
    assert page.action_url == f"/sources/#source-{source.pk}"
    assert page.action_label == "Open shop-replica"


def test_the_first_three_sources_have_charts(scene: Scene) -> None:
    charts = page_of().charts

    assert [source.source for source in charts.sources] == ["billing-eu", "crm", "shop-replica"]
    assert charts.title == "The last hour"
    assert charts.note == "billing-eu, crm, shop-replica: the first 3 of 5 sources"
    assert charts.chart_titles == ("Retained WAL", "Commits")
    crm = charts.sources[1]
    assert crm.page_url == "/lag/?slot=crm/replview&slot=crm/warehouse_sync&range=1h"
    assert crm.data_url == (
        "/lag/data?slot=crm/replview&slot=crm/warehouse_sync&range=1h&charts=retained,commits"
    )
    assert charts.source_ids == ",".join(str(source.source_id) for source in charts.sources)


def test_a_young_record_is_drawn_over_a_shorter_time(scene: Scene) -> None:
    Source.objects.exclude(name="shop").delete()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample WHERE sampled_at < now() - interval '9 minutes'")
    charts = page_of().charts

    assert (charts.title, charts.note) == ("The last 15 min", "shop")
    assert "range=15m" in charts.sources[0].data_url


def test_the_charts_have_the_data_that_they_ask_for(signed_in: Client, scene: Scene) -> None:
    charts = page_of().charts
    for source in charts.sources:
        answer = signed_in.get(source.data_url).json()
        assert tuple(chart["title"] for chart in answer["charts"]) == charts.chart_titles


def test_the_newest_transactions_of_all_slots_are_listed(scene: Scene) -> None:
    known = {"commit_seq": 1, "inserts": 3, "actor": "alice", "actor_grade": "claimed"}
    scene.transaction("crm/replview", "committed", timedelta(0), xid=9, commit_time=scene.now,
                      stored_at=scene.now, **known)  # fmt: skip
    newest = page_of().newest

    assert len(newest) == 8
    assert (newest[0].slot, newest[0].name, newest[0].row.actor) == ("crm/replview", "9", "alice")
    assert [line.slot for line in newest[1:]] == ["shop/replview"] * 7
    times = [line.time for line in newest if line.time]
    assert times == sorted(times, reverse=True)


def test_without_a_transaction_none_is_listed(signed_in: Client, scene: Scene) -> None:
    Transaction.objects.all().delete()
    assert page_of().newest == []
    assert "No transaction is stored yet." in signed_in.get("/").content.decode()


def test_the_number_of_queries_does_not_grow_with_the_sources(
    signed_in: Client, scene: Scene, django_assert_max_num_queries
) -> None:
    with django_assert_max_num_queries(25) as few:
        signed_in.get("/")
    for number in range(30):
        scene.source(f"more-{number}", 180004)
        scene.slot(f"more-{number}", "replview")
    cache.clear()
    with django_assert_max_num_queries(25) as many:
        page = signed_in.get("/").context["page"]

    assert len(many) <= len(few)
    assert len(page.rows) == 35
    assert len(page.charts.sources) == 3


def test_open_transactions_are_listed_oldest_first(scene: Scene) -> None:
    page = page_of()
    assert [(row.transaction.name, row.transaction.state) for row in page.open_rows] == [
        ("crm_batch_20261119_2", "prepared"),
        ("pos_settle_20261120_05", "prepared"),
        ("479418", "streaming"),
        ("pos_settle_20261120_07", "prepared"),
        ("481833", "streaming"),
    ]
    assert page.fleet.open == 5


def test_the_newest_lines_of_the_logs_are_listed(scene: Scene) -> None:
    scene.event("shop/replview", "gap", "Too old.", timedelta(days=8))
    page = page_of()
    assert [(str(event.slot), event.kind) for event in page.events] == [
        ("shop-replica/replview_ro", "problem"),
        ("shop/replview", "schema"),
        ("shop/replview", "connected"),
        ("shop/replview", "gap"),
        ("billing-eu/replview_billing", "disconnected"),
        ("warehouse/replview", "stopped"),
        ("crm/replview", "connected"),
    ]
    assert page.events_total == 6, "one of them is older than a day"


def test_the_page_renders(signed_in: Client, scene: Scene) -> None:
    scene.event("shop/replview", "schema", "<i>Changed.", timedelta(0))
    answer = signed_in.get("/")
    page, data = spaced(answer.content.decode()), answer.context["page"]
    assert re.findall(r'id="name-\d+"[^>]*><b>([^<]+)', page) == names(data)
    assert "<b>1 of 5 sources needs you now.</b>" in page
    assert f'href="{data.action_url}">{data.action_label}</a>' in page
    assert f"Retained WAL, {data.window}" in page
    assert '<b class="unknown">unknown</b>' in page
    assert "&lt;i&gt;Changed." in page
    assert "<i>Changed." not in page
    assert data.charts.note in page
    assert [escape(source.data_url) for source in data.charts.sources] == re.findall(
        r'data-data="([^"]+)"', page
    )
    assert re.findall(r'id="newest-(\d+)"', page) == [str(line.row.id) for line in data.newest]
    assert f'href="/transactions/{data.newest[0].row.id}/"' in page
    assert f'href="/in-flight/?tx={data.open_rows[0].transaction.pk}"' in page
    part = spaced(signed_in.get("/", headers={"HX-Request": "true"}).content.decode())
    assert "<html" not in part
    assert 'id="overview-sentence" hx-swap-oob' in part
    assert "1 of 5 sources needs you now." in part
