"""The overview in a browser: its charts are drawn, and stay while the page is refreshed."""

import datetime as dt
from collections.abc import Iterator

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.browser.lag_story import tell_story
from tests.support.feeder import Feeder, single

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


def test_charts_are_drawn_and_stay_while_the_page_is_refreshed(
    page: Page, server: Server, feeder: Feeder
) -> None:
    tell_story(feeder.slot_id, dt.datetime.now(dt.UTC))
    feeder.commit(single())
    page.goto(server.url)
    charts = page.get_by_role("group", name="Charts of shop")
    expect(charts.locator(".source-pair")).to_have_attribute("aria-busy", "false")
    expect(charts.get_by_role("heading")).to_have_text(["Retained WAL", "Commits"])
    expect(charts.locator(".lag-at").first).to_contain_text("31.5 GB")
    rows = page.locator(".newest-table tbody tr")
    expect(rows).to_have_count(1)

    page.evaluate("document.querySelector('.source-charts').dataset.drawn = 'once'")
    feeder.commit(single())
    expect(rows).to_have_count(2)
    assert charts.get_attribute("data-drawn") == "once"
    expect(charts.locator(".lag-plot svg").first).to_be_visible()

    # The plots are read by keys, and dragging leads to the lag page.
    plot = charts.get_by_role("slider", name="Retained WAL, moment")
    plot.focus()
    page.keyboard.press("Home")
    expect(charts.locator(".lag-at").first).to_contain_text("120 MB")
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_url("**/lag/?slot=shop/replview&range=1h&from=*")
