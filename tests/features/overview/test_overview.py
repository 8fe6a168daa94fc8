"""The overview: which source is worst, what to do first, figures, what is open, what happened."""

import re
from datetime import timedelta

from django.test import Client

from replview.features.overview.page import OverviewPage, build_overview_page
from replview.health.fleet import read_fleet
from replview.health.states import Level
from replview.store.models import Source
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
    assert f'href="/in-flight/?tx={data.open_rows[0].transaction.pk}"' in page
    part = spaced(signed_in.get("/", headers={"HX-Request": "true"}).content.decode())
    assert "<html" not in part
    assert 'id="overview-sentence" hx-swap-oob' in part
    assert "1 of 5 sources needs you now." in part
