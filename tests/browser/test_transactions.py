"""The transactions page in a browser: keys, rows that open, filters that hold at once."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def listed(feeder: Feeder, server: Server, page: Page) -> Page:
    """Sixty commits, every other one by alice."""
    for number in range(60):
        change = NewChange("orders", "I", {"id": str(number), "status": "paid"})
        feeder.commit(NewTransaction([change], actor=("alice", None)[number % 2], grade="claimed"))
    page.goto(f"{server.url}/transactions/")
    expect(page.locator("tr[data-tx]")).to_have_count(50)
    return page


def test_keys_move_along_the_rows_and_open_one(listed: Page) -> None:
    listed.keyboard.press("j")
    listed.keyboard.press("j")
    second = listed.locator("tr[data-tx]").nth(1)
    expect(second.locator("[data-row]")).to_be_focused()
    identifier = second.get_attribute("data-tx")
    listed.keyboard.press("Enter")

    expect(listed).to_have_url(re.compile(rf"/transactions/{identifier}/$"))


def test_a_click_on_a_row_opens_it(listed: Page) -> None:
    row = listed.locator("tr[data-tx]").nth(3)
    identifier = row.get_attribute("data-tx")
    row.locator(".col-origin").click()

    expect(listed).to_have_url(re.compile(rf"/transactions/{identifier}/$"))


def test_what_was_chosen_in_a_menu_holds_when_it_closes(listed: Page) -> None:
    listed.locator("summary", has_text="Actor").click()
    listed.get_by_label("Actor", exact=True).fill("alice")
    listed.locator("h1").click()

    expect(listed).to_have_url(re.compile(r"/transactions/\?slot=shop%2Freplview&actor=alice$"))
    expect(listed.locator("tr[data-tx]")).to_have_count(30)


def test_escape_takes_back_what_was_typed(listed: Page) -> None:
    listed.locator("summary", has_text="Actor").click()
    listed.get_by_label("Actor", exact=True).fill("alice")
    listed.keyboard.press("Escape")
    listed.locator("a", has_text="Older").click()

    expect(listed.locator("tr[data-tx]")).to_have_count(10)


def test_it_works_on_a_phone_and_for_screen_readers(listed: Page) -> None:
    found = Axe().run(listed)
    bad = [v for v in found.response["violations"] if v["impact"] in ("serious", "critical")]
    assert bad == []

    listed.set_viewport_size({"width": 390, "height": 844})
    listed.reload()
    assert not listed.evaluate("document.documentElement.scrollWidth > innerWidth")
    expect(listed.locator("#filters")).to_be_hidden()
    listed.locator("[data-filters]").click()
    expect(listed.get_by_label("Text in keys and values")).to_be_visible()
