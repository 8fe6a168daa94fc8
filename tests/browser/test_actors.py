"""The actors pages in a real browser: links, keys, no sideways scrolling, no axe findings."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture
def acted(feeder: Feeder) -> Feeder:
    """Alice by claim, the till by stamp, and nobody."""
    change = NewChange("stock", "I", new={"sku": "a", "warehouse": "berlin", "on_hand": "1"})
    for actor, grade in (("alice", "claimed"), ("till", "stamped"), (None, None)):
        feeder.commit(NewTransaction([change], actor=actor, grade=grade, context={"path": "/pay"}))
    return feeder


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [each["id"] for each in found if each["impact"] in ("serious", "critical")]


def test_from_the_list_to_one_actor_and_their_transactions(
    acted: Feeder, server: Server, page: Page
) -> None:
    page.goto(f"{server.url}/actors/")
    expect(page.locator(".actors-table tbody tr")).to_have_count(3)
    page.locator("a[data-row]", has_text="alice").click()
    expect(page.locator("h1")).to_contain_text("alice changed 1 row in 1 table")
    page.locator(".day-bars-large a").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/transactions/**")
    assert "actor=alice" in page.url


# Each scheme and each width every time: the other two pairs are made of the same rules.
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1440, "light"),
        (390, "dark"),
        pytest.param(390, "light", marks=pytest.mark.long),
        pytest.param(1440, "dark", marks=pytest.mark.long),
    ],
)
def test_both_pages_fit_and_are_accessible(
    acted: Feeder, server: Server, page: Page, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for path in ("/actors/", "/actor/?actor=alice", "/actor/?actor=", "/actor/?actor=till"):
        page.goto(f"{server.url}{path}")
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, path
        assert serious(page) == [], path
