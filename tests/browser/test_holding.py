"""Rows never slide under the pointer; what is cut is counted; nothing else moves."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewTransaction, single
from tests.support.live_page import rows

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("on_live_page"),
]


#: Sums up what moves from now on, apart from the list's own rows.
WATCH_SHIFTS = """() => {
  window.shifted = 0;
  const own = (node) => (node?.closest ? node : node?.parentElement)?.closest("#rows, #held");
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries())
      if (!entry.sources.every(({ node }) => own(node))) window.shifted += entry.value;
  }).observe({ type: "layout-shift" });
}"""


def point_at(page: Page, number: int) -> Any:
    """Move the pointer onto a row."""
    box = rows(page).nth(number).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 10)
    page.mouse.move(box["x"] + 302, box["y"] + 12)


def test_rows_stay_while_one_points_and_come_when_one_leaves(page: Page, feeder: Feeder) -> None:
    feeder.commit(*(single() for _ in range(10)))
    expect(rows(page)).to_have_count(10)
    point_at(page, 3)
    place = rows(page).nth(3).bounding_box()
    feeder.commit(*(single() for _ in range(5)))
    feeder.open(NewTransaction(state="prepared", gid="batch_1", counts={"orders": [1, 0, 0, 0]}))

    expect(page.locator("#held")).to_have_text("5 new, held while you point")
    assert rows(page).nth(3).bounding_box() == place
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "false")
    page.mouse.move(60, 700)
    expect(rows(page)).to_have_count(15)
    expect(page.locator("#band > .row")).to_have_count(1)
    expect(page.locator("#held")).to_be_hidden()


def test_what_was_held_comes_when_the_pointer_rests(page: Page, feeder: Feeder) -> None:
    feeder.commit(single())
    expect(rows(page)).to_have_count(1)
    point_at(page, 0)
    feeder.commit(single())
    expect(page.locator("#held")).to_have_text("1 new, held while you point")

    expect(rows(page)).to_have_count(2)


def test_the_time_to_the_screen_does_not_count_the_holding(page: Page, feeder: Feeder) -> None:
    feeder.commit(single())
    expect(rows(page)).to_have_count(1)
    point_at(page, 0)
    feeder.commit(single())
    expect(page.locator("#held")).to_be_visible()
    for step in range(6):
        page.wait_for_timeout(500)
        page.mouse.move(500 + step, 200)
    page.mouse.move(60, 700)

    expect(rows(page)).to_have_count(2)
    expect(rows(page).first.locator(".col-latency")).to_contain_text("ms")


def test_a_row_can_be_clicked_at_twenty_commits_a_second(page: Page, feeder: Feeder) -> None:
    feeder.flood(20, 1.5)
    point_at(page, 5)
    page.wait_for_timeout(200)
    wanted = page.locator(".row:hover").get_attribute("data-id")
    feeder.flood(20, 1)
    page.mouse.down()
    page.mouse.up()

    expect(page.locator(".drawer .change")).to_have_count(1)
    assert f"tx={wanted}" in page.url


def test_a_list_scrolled_down_keeps_its_place(page: Page, feeder: Feeder) -> None:
    feeder.commit(*(single() for _ in range(80)))
    expect(rows(page)).to_have_count(80)
    page.evaluate("document.getElementById('live').scrollTop = 900")
    seen = rows(page).nth(40)
    wanted, place = seen.get_attribute("data-id"), seen.bounding_box()
    feeder.commit(*(single() for _ in range(7)))
    feeder.open(NewTransaction(state="prepared", gid="batch_1", counts={"orders": [1, 0, 0, 0]}))
    expect(page.locator("#held")).to_have_text("7 new above")

    assert page.locator(f"[data-id='{wanted}']").bounding_box() == place
    page.keyboard.press("Home")
    expect(rows(page)).to_have_count(87)
    assert page.evaluate("document.getElementById('live').scrollTop") == 0


def test_a_pause_keeps_what_was_held_and_fills_in_the_rest(page: Page, feeder: Feeder) -> None:
    feeder.commit(single())
    expect(rows(page)).to_have_count(1)
    point_at(page, 0)
    feeder.commit(single())
    expect(page.locator("#held")).to_be_visible()
    page.keyboard.press("Space")
    expect(page.locator("#held")).to_be_hidden()
    page.wait_for_timeout(300)
    feeder.commit(single(), single())
    expect(page.locator("#pause-word")).to_have_text("Resume · 3 new")
    page.mouse.move(60, 700)
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("Space")

    expect(rows(page)).to_have_count(4)


def test_open_ones_stand_in_the_band_when_only_they_are_asked_for(
    page: Page, feeder: Feeder, server: Server
) -> None:
    feeder.commit(*(single() for _ in range(5)))
    counts = {"orders": [1, 0, 0, 0]}
    opened = feeder.open(NewTransaction(state="prepared", gid="batch_1", counts=counts))
    page.goto(f"{server.url}/live/?states=open")

    expect(page.locator("#band > .row")).to_have_count(1)
    expect(page.locator("#empty")).to_be_hidden()
    expect(page.locator("#list-end")).to_be_hidden()
    expect(page.locator("#sentence-rest")).to_contain_text("One transaction is open")
    feeder.end(opened, "committed")
    expect(page.locator("#empty-title")).to_have_text("Nothing is open")
    expect(page.locator("#list-end")).to_be_hidden()


@pytest.mark.parametrize("width", [1440, 1100, 700, 390])
def test_tables_that_do_not_fit_are_counted(page: Page, feeder: Feeder, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    names = ("orders", "order_items", "payments", "stock", "price_list")
    counts = {name: [1, 1000, 0, 0] for name in names}
    feeder.commit(NewTransaction(counts=counts, origin="pos_hamburg"))
    cell = rows(page).first.locator(".col-tables")

    for _drawer in (False, True):
        if cell.is_visible():
            fits = "cell => cell.scrollWidth <= cell.clientWidth && cell.scrollHeight < 28"
            expect(cell.locator(".more-tables")).to_contain_text("+")
            assert cell.evaluate(fits)
        rows(page).first.click(position={"x": 40, "y": 10})
        expect(page.locator("#drawer-title")).to_be_visible()


def test_a_long_gid_begins_where_an_xid_begins(page: Page, feeder: Feeder) -> None:
    counts = {"orders": [1, 0, 0, 0]}
    feeder.commit(single(), NewTransaction(gid="nightly_batch_of_20261120_23", counts=counts))
    expect(rows(page)).to_have_count(2)
    gid = rows(page).first.locator(".gid")

    assert gid.evaluate("cell => cell.scrollWidth > cell.clientWidth")
    # The text begins left of the cell's edge by whole letters, the ellipsis takes one.
    slack = gid.evaluate(
        "cell => { const one = document.createElement('code'); one.textContent = '0'.repeat(100);"
        " one.style.font = getComputedStyle(cell).font; document.body.append(one);"
        " const letter = one.getBoundingClientRect().width / 100; one.remove();"
        " return cell.getBoundingClientRect().width % letter; }"
    )
    assert slack < 0.5
    rows(page).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#tip")).to_have_text("nightly_batch_of_20261120_23")


@pytest.mark.parametrize("drawer", [pytest.param(False, marks=pytest.mark.long), True])
def test_nothing_but_new_rows_moves(page: Page, feeder: Feeder, drawer: bool) -> None:
    feeder.flood(20, 1)
    if drawer:
        point_at(page, 2)
        rows(page).nth(2).click()
        expect(page.locator(".drawer .change")).to_have_count(1)
        page.mouse.move(60, 700)
        page.wait_for_timeout(700)
    page.evaluate(WATCH_SHIFTS)
    feeder.flood(20, 5)
    page.wait_for_timeout(500)

    assert page.evaluate("window.shifted") < 0.001
