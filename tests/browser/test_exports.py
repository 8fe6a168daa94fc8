"""The export pages in a real browser: from a filter to files, watched until they are there."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connection
from playwright.sync_api import Page, expect

from replview.features.exports import job as exporting
from replview.jobs import running
from replview.live.publisher import Publisher
from replview.store.models import Export
from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1440, "height": 900}


def order(number: int, status: str) -> dict[str, str | None]:
    return {
        "id": str(number), "customer_id": "7", "status": status, "total": f"{number}.50",
        "paid_at": None, "note": "<b>as it is</b>", "channel": "web",
        "created_at": "2026-11-20 07:57:11.369827+00",
    }  # fmt: skip


@pytest.fixture
def record(page: Page, feeder: Feeder) -> Feeder:
    """A few orders of alice, others of bob, and something else."""
    for number in range(40, 46):
        actor = "alice" if number % 2 else "bob"
        change = NewChange("orders", "I", order(number, "pending"))
        feeder.commit(NewTransaction([change], actor=actor), wake=False)
    paid = NewChange("orders", "U", order(41, "paid"))
    stock = NewChange("stock", "I", {"sku": "a", "warehouse": "b", "reserved": "1", "on_hand": "2"})
    feeder.commit(NewTransaction([paid, stock], actor="alice"), wake=False)
    return feeder


@pytest.fixture
def worker(server: Server, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run beat and a tasks worker for exports in a thread, on the web server's data folder."""
    settings.DATA_DIR = Path(server._environment["REPLVIEW_DATA"])
    stopping, wakes = threading.Event(), Publisher()
    monkeypatch.setattr(running, "stopping", stopping)
    monkeypatch.setattr(exporting, "publisher", lambda: wakes)

    def serve() -> None:
        while not stopping.wait(0.3):
            exporting.KIND.serve()

    beat = threading.Thread(target=serve)
    beat.start()
    yield
    stopping.set()
    beat.join()
    for thread in threading.enumerate():
        if thread.name == "export":
            thread.join()
    wakes.close()
    connection.close()


def findings(page: Page) -> list[str]:
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{f['id']}: {f['nodes'][0]['html']}" for f in found if f["impact"] != "minor"]


def wide_enough(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def look(page: Page, name: str) -> None:
    """Assert that nothing is wider than the page, and on an export's page that axe finds nothing.

    Takes a picture where ``REPLVIEW_PICTURES`` names a folder.
    """
    for size, theme in ((NARROW, "light"), (WIDE, "dark")):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=theme)
        if folder := os.environ.get("REPLVIEW_PICTURES"):
            page.screenshot(path=f"{folder}/{name}-{size['width']}-{theme}.png", full_page=True)
        if name == "export":
            assert findings(page) == []
        assert wide_enough(page)


def test_a_filter_becomes_files(record: Feeder, page: Page, server: Server, worker: None) -> None:
    filters = "slot=shop/replview&tables=public.orders&actor=alice"
    page.goto(f"{server.url}/transactions/?{filters}")
    page.locator(".download > summary").click()
    page.get_by_role("link", name="Export as Parquet datasets").click()
    expect(page.locator("#sentence h1")).to_contain_text("Ready: 4 rows")

    page.wait_for_load_state()  # its scripts run, too
    # Fields are changed; the sentence above the button and the address follow.
    summary = page.locator("#slice-summary")
    expect(summary).to_contain_text("Export all changes of orders from shop/replview")
    page.evaluate("document.body.dataset.loaded = 'once'")
    page.get_by_label("Operations", exact=True).select_option("I")
    expect(page.locator("#sentence h1")).to_contain_text("Ready: 3 rows")
    expect(summary).to_contain_text("Export inserts of orders from shop/replview")
    target = page.get_by_label("Target", exact=True)
    target.fill("of-alice")
    target.press("Enter")
    page.wait_for_url("**to=of-alice*")
    assert "ops=I" in page.url
    expect(summary).to_contain_text("/of-alice.")
    expect(target).to_be_focused()
    assert page.evaluate("document.body.dataset.loaded") == "once", "the page was loaded anew"
    page.get_by_role("button", name="Test write").click()
    expect(page.get_by_text("test write passed")).to_be_visible()
    look(page, "exports")

    wanted = page.request.get(f"{server.url}/api/v1/history?{filters}&ops=I").json()["items"]
    page.get_by_role("button", name="Export").click()
    expect(page.locator("#sentence h1")).to_contain_text("Done: 3 rows")
    row = Export.objects.get()
    assert row.requested_by == "watcher"
    expect(page.get_by_role("region", name="The first rows")).to_contain_text("<b>as it is</b>")
    look(page, "export")

    folder = Path(row.target) / "shop" / "replview-1" / "public.orders"
    rows = ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
    assert [
        (str(one["id"]), one["status"], str(one["total"]), one["_actor"], one["_xid"])
        for one in rows
    ] == [
        (it["new"]["id"], it["new"]["status"], it["new"]["total"], it["actor"], it["xid"])
        for it in wanted
    ]
    page.goto(f"{server.url}/exports/all/")
    expect(page.get_by_role("link", name=str(row.pk), exact=True)).to_be_visible()
    look(page, "exports-all")

    # History jobs can now compute over the files that the export wrote.
    page.goto(f"{server.url}/history/")
    expect(page.locator("#sentence h1")).to_contain_text("Ready to show a table as it was")
    expect(page.get_by_label("Table", exact=True)).to_have_value("public.orders")
    look(page, "history")
    page.wait_for_load_state()
    page.get_by_label("Job", exact=True).select_option("who-changed-what")
    expect(page.locator("#sentence h1")).to_contain_text("Ready to show changes by actor")
    expect(page.locator("#slice-summary")).to_contain_text("Show changes by actor")
    expect(page.get_by_label("Committed from", exact=True)).to_be_visible()
    expect(page.get_by_label("Table", exact=True)).to_have_count(0)
    page.get_by_text("all tables").first.click()
    page.get_by_role("checkbox", name="public.orders").check()
    expect(page.locator("#slice-summary")).to_contain_text(", of orders, in the history of")
    expect(page.get_by_role("checkbox", name="public.orders")).to_be_visible()
    page.go_back()
    expect(page.locator("#slice-summary")).to_contain_text(", of all tables, in the history of")


def test_every_field_has_a_label_on_a_phone(record: Feeder, page: Page, server: Server) -> None:
    page.set_viewport_size(NARROW)
    page.goto(f"{server.url}/exports/?q=pending")
    for name in ("Slot", "Operations", "Actor", "Committed from", "Committed to", "Target", "Name",
                 "Rows before an update", "Digits of numeric without a precision"):  # fmt: skip
        field = page.get_by_label(name, exact=True)
        label = page.locator(f"label[for={field.get_attribute('id')}]")
        expect(label).to_be_visible()
        above, below = label.bounding_box(), field.bounding_box()
        assert above is not None
        assert below is not None
        assert above["y"] + above["height"] <= below["y"] + 1
    expect(page.get_by_role("list", name="Further conditions")).to_contain_text("pending")
    button = page.get_by_role("button", name="Export")
    summary = page.locator("#slice-summary").bounding_box()
    end = button.bounding_box()
    assert summary is not None
    assert end is not None
    assert summary["y"] < end["y"]
    assert wide_enough(page)


def test_what_the_fields_say_is_exported(record: Feeder, page: Page, server: Server) -> None:
    page.goto(f"{server.url}/exports/")
    expect(page.locator("#sentence h1")).to_contain_text("Ready:")
    # The page does not learn of these changes before the click.
    page.evaluate("""() => {
        document.getElementById("id_actor").value = "bob";
        document.querySelector("[name=tables][value='public.orders']").checked = true;
    }""")
    page.get_by_role("button", name="Export").click()
    page.wait_for_url("**/exports/*/")
    row = Export.objects.get()
    assert row.slice["actors"] == ["bob"]
    assert row.slice["tables"] == ["public.orders"]
