"""The lag page in a browser: it grows while one looks, zooms, is read by keys and as a table."""

import datetime as dt
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from replview.store.models import Slot
from tests.browser.conftest import Server
from tests.browser.lag_story import GB, next_sample, tell_story
from tests.support.feeder import Feeder

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(autouse=True)
def no_session_left(page: Page) -> Iterator[None]:
    """Drop the sample table and close the connection opened while Playwright's event loop runs."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS slot_sample_story")
    connection.close()


@pytest.fixture
def lag(page: Page, server: Server, feeder: Feeder) -> Page:
    """The page, drawn."""
    tell_story(feeder.slot_id, dt.datetime.now(dt.UTC))
    page.goto(f"{server.url}/lag/?slot=shop/replview")
    expect(page.locator("#lag-charts")).to_have_attribute("aria-busy", "false")
    return page


def test_a_new_sample_is_on_the_chart_and_in_its_table(lag: Page, feeder: Feeder) -> None:
    now = lag.locator("#chart-retained .lag-at")
    expect(now).to_contain_text("31.5 GB")
    lag.click("#lag-as-table")
    table = lag.get_by_role("table", name="Retained WAL, newest first")
    expect(table.locator("tbody tr").first).to_contain_text("31.5 GB")
    lagging = lag.get_by_role("table", name="Lag, seconds, newest first")
    expect(lagging.locator("tbody tr").first).to_contain_text("unknown")
    assert "table=1" in lag.url

    began = time.monotonic()
    next_sample(feeder.slot_id, 40 * GB)
    source_id = Slot.objects.get(pk=feeder.slot_id).source_id
    # Far oftener than sampled: one of them is heard as soon as the socket listens.
    while "40\xa0GB" not in (now.text_content() or ""):
        feeder.publisher.source_sampled(source_id)
        lag.wait_for_timeout(200)
        assert time.monotonic() - began < 11, "heard nothing: the page found it by asking"
    print(f"sample to chart: {(time.monotonic() - began) * 1000:.0f} ms")
    expect(table.locator("tbody tr").first).to_contain_text("40 GB")

    # Compare the colours of all lines: the area below a line is a line too, without a colour.
    strokes = """() => [...document.querySelectorAll("#chart-retained .js-line")]
        .map((line) => getComputedStyle(line).stroke).join()"""
    before = lag.evaluate(strokes)
    lag.click("[data-theme-toggle]")
    lag.wait_for_function(f"(before) => ({strokes})() !== before", arg=before)


def test_a_young_record_opens_with_a_short_range(
    page: Page, server: Server, feeder: Feeder
) -> None:
    watched = tell_story(feeder.slot_id, dt.datetime.now(dt.UTC))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample WHERE sampled_at < now() - interval '3 minutes'")
    page.goto(f"{server.url}/lag/?slot={watched}")
    expect(page.locator("#lag-charts")).to_have_attribute("aria-busy", "false")

    short = page.locator("[data-range='5m']")
    expect(short).to_have_attribute("aria-current", "true")
    page.locator("[data-range='1h']").click()
    expect(short).to_have_attribute("aria-current", "false")
    page.go_back()
    expect(short).to_have_attribute("aria-current", "true")
    assert "range=" not in page.url


def test_a_dragged_range_is_fetched_anew_and_back_leads_out(lag: Page, server: Server) -> None:
    box = lag.locator("#chart-retained .lag-plot").bounding_box()
    assert box is not None
    y = box["y"] + 80
    lag.mouse.move(box["x"] + box["width"] * 0.6, y)
    lag.mouse.down()
    lag.mouse.move(box["x"] + box["width"] * 0.7, y, steps=4)
    lag.mouse.move(box["x"] + box["width"] * 0.8, y, steps=4)
    expect(lag.locator("#chart-throughput .lag-drag")).to_be_visible()
    lag.mouse.up()

    link = lag.locator("#lag-transactions")
    expect(link).to_be_visible()
    assert "since=" in (link.get_attribute("href") or "")
    assert "from=" in lag.url
    expect(lag.locator("#lag-window-words")).not_to_contain_text("now")
    lag.keyboard.press("Escape")
    expect(link).to_be_hidden()
    assert "from=" not in lag.url
    lag.go_forward()
    expect(link).to_be_visible()
    lag.go_back()
    expect(lag.locator("#lag-window-words")).to_contain_text("now, live")


def test_keys_read_all_charts_and_a_chart_is_saved_without_a_cloud(
    lag: Page, server: Server
) -> None:
    plot = lag.locator("#chart-lag .lag-plot")
    plot.focus()
    lag.keyboard.press("Home")
    expect(lag.locator("#chart-retained .lag-cross")).to_be_visible()
    expect(lag.locator("#chart-retained .lag-at")).to_contain_text("120 MB")
    expect(lag.locator("#announcer")).to_contain_text("Lag, seconds: write")
    lag.keyboard.press("End")
    expect(lag.locator("#chart-lag .lag-at .unknown").first).to_have_text("unknown")
    lag.keyboard.press("Shift+ArrowLeft")
    moment = plot.get_attribute("aria-valuenow")
    lag.keyboard.press("ArrowRight")
    assert int(plot.get_attribute("aria-valuenow") or 0) - int(moment or 0) == 5000

    asked: list[str] = []
    lag.on("request", lambda request: asked.append(request.url))
    with lag.expect_download() as download:
        lag.locator("#chart-retained").get_by_role("button", name="save as a picture").click()
    with open(download.value.path(), "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"

    assert download.value.suggested_filename == "shop-replview-retained.png"
    assert all(url.startswith((server.url, "data:", "blob:")) for url in asked), asked
    assert lag.locator(".modebar, [class*=cloud]").count() == 0
