"""The find page in a real browser: typing, opening, going on, downloading."""

import os

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


def order(number: int, status: str, **more: str | None) -> dict[str, str | None]:
    return {"id": str(number), "status": status, "note": None, **more}


@pytest.fixture
def find(page: Page, server: Server, feeder: Feeder) -> Page:
    """The page over a few orders that were paid."""
    for number in range(40, 44):
        feeder.commit(
            NewTransaction([NewChange("orders", "I", order(number, "pending"))], actor="alice"),
            wake=False,
        )
        change = NewChange("orders", "U", order(number, "paid", note="left at the door"))
        feeder.commit(NewTransaction([change], actor="bob" if number % 2 else None), wake=False)
    page.goto(f"{server.url}/find/")
    return page


def test_a_condition_is_typed_a_line_opened_a_file_taken(find: Page) -> None:
    find.get_by_label("Table").fill("public.orders")
    find.get_by_label("Condition on values").fill("status: pending -> paid")
    find.get_by_role("button", name="Find", exact=True).click()
    lines = find.locator(".found")
    expect(lines).to_have_count(4)
    assert "actor=" not in find.url
    expect(lines.first).to_contain_text("status: pending → paid")

    find.wait_for_load_state()  # its scripts run, too
    find.locator("body").press("j")
    expect(lines.first.locator("summary.found-row")).to_be_focused()
    find.keyboard.press("Enter")
    expect(lines.first.locator(".block")).to_be_visible()
    if folder := os.environ.get("REPLVIEW_PICTURES"):
        _pictures(find, folder)

    find.locator(".download > summary").click()
    with find.expect_download() as taken:
        find.get_by_role("link", name="JSON lines").click()
    name = taken.value.suggested_filename
    assert name.endswith(".jsonl")
    assert "public.orders" in name
    assert len(taken.value.path().read_text().splitlines()) == 4


def test_what_is_not_understood_is_said_beside_the_box(find: Page) -> None:
    find.get_by_label("Table").fill("public.orders")
    find.get_by_label("Condition on values").fill("statuz = paid")
    find.get_by_role("button", name="Find", exact=True).click()
    expect(find.get_by_role("alert")).to_contain_text("There is no column statuz")
    expect(find.get_by_label("Condition on values")).to_have_value("statuz = paid")


def _pictures(page: Page, folder: str) -> None:
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=f"{folder}/find-{width}-{scheme}.png")
    page.set_viewport_size({"width": 1440, "height": 900})
