"""A transaction's page in a real Chromium: what is copied, switched, undone, reached by keys."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
]

COPIED = (
    "window.copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text); }"
)


@pytest.fixture
def shown(page: Page, feeder: Feeder, server: Server) -> Page:
    """The page of an insert, an update of the same row, and a delete that cannot be undone."""
    row = {"id": "1", "status": "pending", "note": "<b>note</b> " * 400, "paid_at": None}
    feeder.commit(NewTransaction([NewChange("orders", "I", row)]))
    later = {**row, "status": "paid", "note": "short"}
    changes = [NewChange("orders", "U", later), NewChange("orders", "D", None, {"id": "7"}, "K")]
    feeder.commit(NewTransaction(changes, actor="alice", grade="claimed"))
    made = feeder.connection.execute(
        "SELECT id FROM transaction ORDER BY commit_seq DESC LIMIT 1"
    ).fetchone()
    assert made is not None
    page.goto(f"{server.url}/transactions/{made[0]}/")
    page.evaluate(COPIED)
    return page


def copied(page: Page) -> Any:
    """Wait until something has been copied and return it."""
    for _ in range(400):
        if (text := page.evaluate("window.copied.pop() ?? null")) is not None:
            return text
        page.wait_for_timeout(50)
    raise AssertionError("nothing was copied")


def test_values_and_changes_are_copied(shown: Page) -> None:
    shown.locator("mark.value", has_text="paid").first.click()
    assert copied(shown) == "paid"
    shown.locator("mark.value", has_text="pending").first.focus()
    shown.keyboard.press("Enter")
    assert copied(shown) == "pending"
    first = shown.locator(".change").first
    first.get_by_role("link", name="JSON").click()
    assert '"op": "update"' in copied(shown)
    first.get_by_role("link", name="Undo").click()
    assert "SET status = 'pending'" in copied(shown)
    expect(shown.locator(".toast")).to_contain_text("Copied the SQL that takes it back")


def test_a_cut_value_is_copied_whole_and_shown_whole(shown: Page) -> None:
    shown.locator("mark.value[data-cut]").first.click()
    assert copied(shown) == "<b>note</b> " * 400
    shown.locator(".show-all").first.click()

    expect(shown.locator(".whole")).to_have_text(("<b>note</b> " * 400).strip())
    assert shown.locator(".change b b").count() == 0


def test_an_undo_that_is_refused_says_why(shown: Page) -> None:
    shown.locator(".change").nth(1).locator("[data-refused]").click(force=True)

    expect(shown.locator(".toast")).to_contain_text("the server sent only the key")
    expect(shown.locator("#undo-why")).to_contain_text("change 2: old row unknown")


def test_the_diff_is_switched_in_place_and_kept(shown: Page) -> None:
    shown.evaluate("window.stays = true")
    shown.get_by_role("link", name="Inline").click()
    expect(shown.locator("#changes")).to_have_class("changes diff-inline")
    assert "diff=inline" in shown.url
    assert shown.evaluate("window.stays")
    shown.get_by_role("link", name="All columns").click()

    shown.wait_for_url("**columns=all**")
    expect(shown.locator("#changes")).to_have_class("changes diff-inline")


def test_the_whole_is_undone_in_a_dialog(page: Page, feeder: Feeder, server: Server) -> None:
    feeder.commit(NewTransaction([NewChange("orders", "I", {"id": "1"})]))
    made = feeder.connection.execute("SELECT max(id) FROM transaction").fetchone()
    assert made is not None
    page.goto(f"{server.url}/transactions/{made[0]}/")
    page.evaluate(COPIED)
    page.locator("[data-undo-all]").click()
    expect(page.locator("#undo-sql pre")).to_contain_text("DELETE FROM public.orders")
    page.locator("#undo-sql [data-copy]").click()

    assert copied(page).strip().endswith("COMMIT;")


def test_it_can_be_read_without_scripts_and_on_a_phone(
    shown: Page, page: Page, server: Server
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    context = page.context.browser.new_context(java_script_enabled=False)  # type: ignore[union-attr]
    context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
    plain = context.new_page()
    plain.goto(page.url)
    plain.get_by_role("link", name="Inline").click()

    expect(plain.locator("#changes")).to_have_class("changes diff-inline")
    plain.locator(".change").first.get_by_role("link", name="SQL").click()
    expect(plain.locator("body")).to_contain_text("UPDATE public.orders")
    context.close()
