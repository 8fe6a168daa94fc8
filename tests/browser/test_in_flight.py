"""The in-flight page: growing, leaving, the drawer, keys, filters; in a real browser."""

import time
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from replview.ui.changes.drawer import PAGE_CHANGES
from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


def streaming(**values: Any) -> NewTransaction:
    changes = [NewChange("price_list", "U", {"sku": f"S{n}", "price": "1.00"}) for n in range(60)]
    return NewTransaction(changes, state="streaming", streamed=True, **values)


def prepared(gid: str) -> NewTransaction:
    changes = [NewChange("payments", "I", {"id": "1", "amount": "5.00"})]
    return NewTransaction(changes, state="prepared", gid=gid)


@pytest.fixture
def in_flight(page: Page, server: Server) -> Page:
    """The page with nothing in flight."""
    page.goto(f"{server.url}/in-flight/")
    expect(page.locator("#sentence")).to_contain_text("No transaction is in flight.")
    return page


def opener(page: Page, name: str) -> Any:
    """The link of the row with that gid or xid."""
    return page.locator("tr[data-tx]:not(.detail)", has_text=name).locator("[data-open]")


def test_it_appears_grows_and_leaves_without_a_reload(in_flight: Page, feeder: Feeder) -> None:
    in_flight.evaluate("window.same = true")
    opened = feeder.open(streaming())
    row = in_flight.locator(".flight-table tbody tr").first
    expect(row).to_contain_text("streaming")
    expect(row).to_contain_text("60")
    feeder.grow(opened, "price_list", 900)
    expect(row).to_contain_text("960")
    feeder.end(opened, "aborted")

    expect(in_flight.locator(".flight-table")).to_have_count(0)
    expect(in_flight.locator(".ended-table tbody tr")).to_contain_text("aborted")
    expect(in_flight.locator(".ended-table .lifecycle")).to_be_visible()
    assert in_flight.evaluate("window.same")


def test_while_one_streams_it_moves_at_least_once_a_second_and_nothing_else_does(
    in_flight: Page, feeder: Feeder
) -> None:
    opened = feeder.open(streaming())
    feeder.open(prepared("waits"))
    expect(opener(in_flight, "waits")).to_be_visible()
    in_flight.evaluate(
        """() => {
          window.seen = []; window.places = new Set(); window.others = 0;
          const cell = document.querySelector('.flight-table td.col-changes');
          const row = document.querySelector('tr[data-tx]:has(a[data-open] .state-prepared)');
          let last = cell.textContent;
          new MutationObserver(() => {
            if (cell.textContent !== last) {
              window.seen.push(performance.now()); last = cell.textContent;
            }
            window.places.add(row.getBoundingClientRect().top);
          }).observe(cell, { childList: true, characterData: true, subtree: true });
          const moved = (one) => one.target.closest?.('td') && one.target.nodeName !== 'TIME';
          new MutationObserver((records) => { window.others += records.filter(moved).length; })
            .observe(row, { childList: true, subtree: true });
        }"""
    )
    until = time.monotonic() + 6
    while time.monotonic() < until:
        feeder.grow(opened, "price_list", 500)
        in_flight.wait_for_timeout(100)
    times = in_flight.evaluate("window.seen")
    gaps = [later - earlier for earlier, later in pairwise(times)]

    assert len(times) >= 3
    # The pace is 0.8 s; on a machine with other work a second is stretched.
    assert sorted(gaps)[len(gaps) // 2] < 3000, gaps
    assert len(in_flight.evaluate("[...window.places]")) == 1
    assert in_flight.evaluate("window.others") == 0


def test_a_hidden_tab_asks_nothing(in_flight: Page, feeder: Feeder) -> None:
    asked: list[str] = []
    in_flight.on("request", lambda request: asked.append(request.url))
    in_flight.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true})"
    )
    in_flight.wait_for_timeout(1500)
    asked.clear()
    in_flight.wait_for_timeout(2500)
    assert [url for url in asked if "/in-flight/now/" in url] == []

    feeder.open(prepared("came meanwhile"))
    in_flight.evaluate("delete document.hidden")
    in_flight.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(opener(in_flight, "came meanwhile")).to_be_visible()


def test_the_drawer_opens_by_click_and_keys_and_loads_more(in_flight: Page, feeder: Feeder) -> None:
    feeder.open(streaming())
    feeder.open(prepared("first"))
    feeder.open(prepared("second"))
    expect(opener(in_flight, "second")).to_be_visible()
    in_flight.locator("td.col-age").first.click()
    expect(in_flight.locator(".drawer .change")).to_have_count(PAGE_CHANGES)
    expect(in_flight.locator(".drawer .chip-open")).to_have_text("not committed")
    in_flight.locator(".drawer [data-more]").click()
    expect(in_flight.locator(".drawer .change")).to_have_count(2 * PAGE_CHANGES)

    in_flight.keyboard.press("j")
    expect(in_flight.locator("#drawer-title")).to_contain_text("first")
    expect(in_flight.locator(".drawer .sql").first).to_contain_text("COMMIT PREPARED 'first';")
    in_flight.keyboard.press("Escape")
    expect(in_flight.locator(".drawer")).to_be_hidden()
    expect(in_flight.locator("#side")).to_be_visible()
    expect(opener(in_flight, "first")).to_be_focused()
    in_flight.keyboard.press("ArrowDown")
    in_flight.keyboard.press("Enter")
    expect(in_flight.locator("#drawer-title")).to_contain_text("second")
    assert "tx=" in in_flight.url


def test_what_is_read_stays_while_the_rest_is_renewed(in_flight: Page, feeder: Feeder) -> None:
    opened = feeder.open(streaming())
    in_flight.locator("td.col-age").first.click()
    expect(in_flight.locator(".drawer .change")).to_have_count(PAGE_CHANGES)
    in_flight.evaluate("document.querySelector('.flight-body').scrollTop = 400")
    in_flight.evaluate("window.read = document.querySelector('.change')")
    feeder.grow(opened, "price_list", 900)
    expect(in_flight.locator(".flight-changes-head")).to_contain_text("960 changes so far")

    assert in_flight.evaluate("document.querySelector('.flight-body').scrollTop") == 400
    assert in_flight.evaluate("window.read.isConnected")
    feeder.end(opened, "aborted")
    expect(in_flight.locator(".flight-changes-head")).to_contain_text("rolled back")
    expect(in_flight.locator(".drawer .lifecycle-steps")).to_contain_text("aborted")


def test_the_copied_statement_is_quoted(in_flight: Page, feeder: Feeder) -> None:
    in_flight.context.grant_permissions(["clipboard-read", "clipboard-write"])
    gid = "o'brien <b>\\ 1"
    feeder.open(prepared(gid))
    in_flight.locator(".copy-menu > summary").click()
    expect(in_flight.locator(".copy-item")).to_have_count(2)
    # The menu stays open although the sentence is renewed.
    feeder.open(prepared("another"))
    expect(opener(in_flight, "another")).to_be_visible()
    in_flight.locator(".copy-item").last.click()
    expect(in_flight.locator("#toasts")).to_contain_text("Copied")

    copied = in_flight.evaluate("navigator.clipboard.readText()")
    assert copied == "ROLLBACK PREPARED E'o''brien <b>\\\\ 1';"


def test_the_text_filter_works_while_typing_and_stays_in_the_address(
    in_flight: Page, feeder: Feeder
) -> None:
    feeder.open(prepared("apples"))
    feeder.open(prepared("pears"))
    expect(opener(in_flight, "pears")).to_be_visible()
    in_flight.keyboard.press("f")
    in_flight.keyboard.type("app")
    expect(opener(in_flight, "pears")).to_have_count(0)
    expect(opener(in_flight, "apples")).to_be_visible()
    assert "q=app" in in_flight.url
    in_flight.locator(".flight-toolbar summary", has_text="State").click()
    in_flight.locator(".flight-toolbar a", has_text="streaming").click()
    expect(in_flight.locator(".empty")).to_contain_text("No match")
    expect(in_flight.locator("#text")).to_have_value("app")
    in_flight.locator(".empty a").click()
    expect(opener(in_flight, "pears")).to_be_visible()


def test_no_page_scrolls_sideways_and_every_target_can_be_read_at_390_pixels(
    in_flight: Page, feeder: Feeder
) -> None:
    in_flight.set_viewport_size({"width": 390, "height": 844})
    feeder.open(streaming())
    feeder.open(prepared("a rather long global transaction identifier of somebody's"))
    feeder.end(feeder.open(streaming()), "aborted")
    expect(in_flight.locator(".ended-table tbody tr")).to_be_visible()
    assert in_flight.evaluate("document.documentElement.scrollWidth") == 390
    assert in_flight.evaluate("document.querySelector('.main').scrollWidth") == 390
    in_flight.locator("td.col-age").first.click()
    expect(in_flight.locator(".drawer .change")).to_have_count(PAGE_CHANGES)
    assert in_flight.evaluate("document.documentElement.scrollWidth") == 390


def test_nothing_moves_for_who_asked_for_no_motion(
    page: Page, server: Server, feeder: Feeder
) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{server.url}/in-flight/")
    feeder.open(prepared("quiet"))
    expect(opener(page, "quiet")).to_be_visible()

    style = "getComputedStyle(document.querySelector('.drawer')).animationDuration"
    assert page.evaluate(style) in ("0s", "1s")


def test_a_page_that_is_not_answered_says_so(
    in_flight: Page, server: Server, feeder: Feeder
) -> None:
    server.stop()
    expect(in_flight.locator("#liveness")).to_have_text("no answer: not live")
    server.start()

    expect(in_flight.locator("#liveness")).to_have_text("updates live")
