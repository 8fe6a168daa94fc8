"""The live page: commits, the drawer, pausing, filters, values."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from replview.ui.changes.drawer import PAGE_CHANGES
from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction, single
from tests.support.live_page import rows

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("on_live_page"),
]


def test_a_commit_appears_and_says_how_long_it_took(page: Page, feeder: Feeder) -> None:
    expect(page.locator("#empty")).to_be_visible()
    feeder.commit(single())

    expect(rows(page)).to_have_count(1)
    expect(rows(page).first.locator("code")).to_have_text("payments")
    expect(rows(page).first.locator(".col-latency")).to_contain_text("ms")
    expect(page.locator("#empty")).to_be_hidden()


def test_the_rate_is_known_after_five_seconds(page: Page, feeder: Feeder) -> None:
    rate = page.locator("#rate")
    until = time.monotonic() + 5
    while "rate" in (rate.text_content() or "") and time.monotonic() < until:
        feeder.commit(single())
        page.wait_for_timeout(50)

    assert re.fullmatch(r"[\d.]+\s+tx/s", rate.text_content() or "")
    expect(page.locator("#sentence-rest")).to_contain_text("a second")


def test_the_drawer_opens_by_click_and_by_enter(page: Page, feeder: Feeder) -> None:
    feeder.commit(single(1))
    feeder.commit(single(2))
    expect(rows(page)).to_have_count(2)
    rows(page).nth(1).click()
    expect(page.locator(".drawer .change")).to_have_count(1)
    expect(page.locator(".drawer .key")).to_contain_text("1")
    page.keyboard.press("k")
    expect(page.locator(".drawer .key")).to_contain_text("2")
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_be_hidden()
    expect(rows(page).first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    expect(page.locator(".drawer .key")).to_contain_text("1")
    assert "tx=" in page.url


def test_a_pause_holds_and_resuming_fills_in(page: Page, feeder: Feeder) -> None:
    feeder.commit(single())
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("Space")
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")
    page.wait_for_timeout(300)
    feeder.commit(*(single() for _ in range(5)))
    expect(page.locator("#pause-word")).to_contain_text("5 new")
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("Space")

    expect(rows(page)).to_have_count(6)
    expect(page.locator(".marker-gap")).to_contain_text("5 transactions filled")


def test_the_address_restores_the_view(page: Page, feeder: Feeder, server: Server) -> None:
    change = NewChange("orders", "U", {"id": "1", "status": "paid"})
    feeder.commit(single(), NewTransaction([change], actor="alice", grade="claimed"))
    expect(rows(page)).to_have_count(2)
    page.locator("[data-op=I]").click()
    expect(rows(page)).to_have_count(1)
    page.fill("#text", "paid")
    page.wait_for_url("**q=paid**")
    rows(page).first.click()
    expect(page.locator(".drawer .change")).to_have_count(1)
    other = page.context.new_page()
    other.goto(page.url)

    expect(rows(other)).to_have_count(1)
    expect(other.locator(".drawer .change")).to_have_count(1)
    expect(other.locator("#text")).to_have_value("paid")
    expect(other.locator("[data-op=I]")).to_have_attribute("aria-pressed", "false")


def test_a_hostile_value_stays_text(page: Page, feeder: Feeder) -> None:
    hostile = "<img src=x onerror=\"document.body.dataset.hacked='yes'\">"
    change = NewChange("orders", "I", {"id": hostile, "note": hostile, "status": hostile})
    message = NewChange(None, "M", {"prefix": hostile, "content": hostile})
    feeder.commit(
        NewTransaction([change, message], actor=hostile, grade="claimed", origin=hostile),
        NewTransaction([message], state="message", gid=hostile),
    )
    expect(rows(page)).to_have_count(2)
    rows(page).nth(1).click()
    expect(page.locator(".drawer .change")).to_have_count(2)

    expect(page.locator(".drawer-sentence")).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0
    assert page.evaluate("document.body.dataset.hacked") is None


def test_a_large_value_is_cut_and_shown_whole_on_demand(page: Page, feeder: Feeder) -> None:
    change = NewChange("orders", "I", {"id": "1", "note": "x" * 5000})
    feeder.commit(NewTransaction([change]))
    rows(page).first.click()
    page.locator(".show-all").click()

    expect(page.locator(".whole")).to_have_text("x" * 5000)


def test_a_long_transaction_is_loaded_a_page_at_a_time(page: Page, feeder: Feeder) -> None:
    changes = [NewChange("payments", "I", {"id": str(n)}) for n in range(120)]
    feeder.commit(NewTransaction(changes))
    rows(page).first.click()
    expect(page.locator(".drawer .change")).to_have_count(PAGE_CHANGES)
    page.locator("[data-more]").click()

    expect(page.locator(".drawer .change")).to_have_count(2 * PAGE_CHANGES)


def test_an_open_transaction_grows_and_drops_into_the_list(page: Page, feeder: Feeder) -> None:
    counts = {"price_list": [0, 10, 0, 0]}
    opened = feeder.open(NewTransaction(state="streaming", streamed=True, counts=counts))
    band = page.locator("#band > .row")
    expect(band).to_have_count(1)
    feeder.grow(opened, "price_list", 90)
    expect(band).to_contain_text("100")
    feeder.end(opened, "aborted")

    expect(band).to_have_count(0)
    expect(rows(page).first).to_contain_text("aborted")


def test_a_flood_is_folded_and_the_list_stays_bounded(page: Page, feeder: Feeder) -> None:
    feeder.flood(2000, 4)

    expect(page.locator(".row.fold").first).to_contain_text("folded to keep up")
    assert page.locator("#rows > .row").count() <= 500
    page.locator(".row.fold button").first.click()
    page.wait_for_timeout(500)
    assert page.locator("#rows > .row").count() > 100


def test_no_page_scrolls_sideways_at_390_pixels(page: Page, feeder: Feeder) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    feeder.commit(single())
    expect(rows(page)).to_have_count(1)
    rows(page).first.click()
    expect(page.locator(".drawer .change")).to_have_count(1)

    assert page.evaluate("document.documentElement.scrollWidth") == 390
