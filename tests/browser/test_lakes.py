"""The pages of lakes in a real browser: from the list to a program, and a run that is requested."""

import datetime as dt
import os

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from replview.jobs.lakes import rows
from replview.store.models import Lake, LakeRelation, LakeRun, Slot
from tests.browser.axe import findings
from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

SIZES = ({"width": 1440, "height": 900}, {"width": 390, "height": 844})


@pytest.fixture
def lake(page: Page, feeder: Feeder) -> Lake:
    """A lake with a table that was read a while ago, one with a gap, and one that failed."""
    stock = {"sku": "a", "warehouse": "b", "reserved": "1", "on_hand": "2"}
    feeder.commit(NewTransaction([NewChange("stock", "I", stock)]), wake=False)
    slot = Slot.objects.get(pk=feeder.slot_id)
    lake = Lake.objects.create(name="warehouse", slot=slot, slot_name=str(slot), format="delta",
                               root="/srv/lake/warehouse-of-the-shop")  # fmt: skip
    read = {
        "reported_at": dt.datetime.now(dt.UTC) - dt.timedelta(minutes=7),
        "sizes": {"changes": {"rows": 2_318_644, "files": 17, "bytes": 214_000_000},
                  "current": {"rows": 41_207, "files": 16, "bytes": 5_300_000}},
    }  # fmt: skip
    LakeRelation.objects.create(lake=lake, name="public.orders", reached={"1": 1}, **read)
    LakeRelation.objects.create(lake=lake, name="public.stock", gaps=[[1, 2, 91]], **read)
    LakeRelation.objects.create(
        lake=lake, name="audit.log", no_current="the table has no key, so that its rows cannot be "
        "told apart", problem_cause="no connector of delta is known for Spark 4.3",
        problem_remedy="use PySpark 4.1, or name one with --connector",
    )  # fmt: skip
    LakeRun.objects.create(
        lake=lake, action="maintain", requested_how="command", requested_by="ops", state="done",
        started_at=dt.datetime(2026, 11, 20, 7, 57, tzinfo=dt.UTC),
        finished_at=dt.datetime(2026, 11, 20, 7, 59, tzinfo=dt.UTC),
    )  # fmt: skip
    return lake


def look(page: Page, name: str) -> None:
    """Check that nothing is wider than the page, and that axe finds nothing, in both themes."""
    for size in SIZES:
        for theme in ("light", "dark"):
            page.set_viewport_size(size)  # type: ignore[arg-type]
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            if folder := os.environ.get("REPLVIEW_PICTURES"):
                path = f"{folder}/{name}-{size['width']}-{theme}.png"
                page.screenshot(path=path, full_page=True)
            assert findings(page) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_lake_is_looked_at_and_run(lake: Lake, page: Page, server: Server) -> None:
    page.goto(f"{server.url}/lakes/")
    look(page, "lakes")
    page.set_viewport_size(SIZES[0])  # type: ignore[arg-type]
    row = page.get_by_role("row", name="public.orders")
    expect(row).to_contain_text("2,318,644")
    row.get_by_role("link").press("Enter")
    page.wait_for_url("**table=public.orders*")
    expect(page.get_by_role("heading", name="Open this table")).to_be_visible()
    page.get_by_role("navigation", name="Which of its tables").get_by_text("current").click()
    page.wait_for_url("**kind=current*")
    program = page.get_by_role("region", name="Spark SQL: open current")
    expect(program).to_contain_text("shop/replview/public~2Eorders/current")
    look(page, "lake")

    page.get_by_role("button", name="Run lake warehouse").click()
    expect(page.locator("#sentence h1")).to_contain_text("warehouse: waiting for a worker.")
    run = rows.claim()
    assert run is not None
    # The page follows by itself.
    progress = {"table": 3, "tables": 3, "changes": 640_000, "of": 2_318_644}
    rows.beat(run, reading="public.stock", result=progress)
    expect(page.locator("#sentence h1")).to_contain_text("warehouse: reading public.stock.")
    bar = page.get_by_role("img", name="table 3 of 3, 640,000 of 2,318,644 changes")
    expect(bar).to_be_visible()
    look(page, "lake-running")
    rows.fail(run, "the disk is full", "Make room", reading="public.stock")
    expect(page.locator("#sentence h1")).to_contain_text("public.stock: the disk is full.")
    connection.close()


def test_the_page_without_a_lake_names_the_command(
    page: Page, feeder: Feeder, server: Server
) -> None:
    page.goto(f"{server.url}/lakes/")
    expect(page.get_by_role("heading", name="No lake yet", exact=True)).to_be_visible()
    look(page, "lakes-empty")
    connection.close()


def test_a_lake_is_added_by_keyboard(page: Page, feeder: Feeder, server: Server) -> None:
    stock = {"sku": "a", "warehouse": "b", "reserved": "1", "on_hand": "2"}
    feeder.commit(NewTransaction([NewChange("stock", "I", stock)]), wake=False)
    page.goto(f"{server.url}/lakes/")
    page.get_by_role("link", name="Add a lake").first.press("Enter")
    expect(page.locator("#sentence h1")).to_contain_text("choose its tables.")
    look(page, "lake-new")
    page.set_viewport_size(SIZES[0])  # type: ignore[arg-type]
    page.locator("summary", has_text="none chosen").press("Enter")
    page.get_by_role("checkbox", name="public.stock").press("Space")
    expect(page.locator("#sentence h1")).to_contain_text("Ready to add lake")
    page.keyboard.press("Escape")
    page.get_by_label("Run every … minutes").fill("0")
    page.keyboard.press("Tab")
    expect(page.get_by_role("alert")).to_contain_text("0 is no number of minutes.")
    look(page, "lake-new-wrong")
    page.set_viewport_size(SIZES[0])  # type: ignore[arg-type]
    page.get_by_label("Run every … minutes").fill("15")
    page.get_by_label("Name").fill("stock")
    page.keyboard.press("Enter")
    expect(page.locator("#sentence h1")).to_contain_text("Ready to add lake stock.")
    look(page, "lake-new-ready")
    page.set_viewport_size(SIZES[0])  # type: ignore[arg-type]
    page.get_by_role("button", name="Add lake").press("Enter")
    page.wait_for_url("**/lakes/*/")
    lake = Lake.objects.get()
    assert (lake.name, lake.every_minutes) == ("stock", 15)
    assert [one.name for one in lake.relations.all()] == ["public.stock"]
    look(page, "lake-added")
    connection.close()
