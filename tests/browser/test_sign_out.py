"""Signing out, with a page open in another tab."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


def test_signing_out_leaves_no_page_open_in_another_tab(page: Page, server: Server) -> None:
    other = page.context.new_page()
    other.goto(f"{server.url}/transactions/")
    # Polling would lead the page to the login too, sooner or later.
    other.route(lambda url: "/login/" not in url, lambda route: route.abort())
    page.goto(f"{server.url}/accounts/me/")
    page.get_by_role("button", name="Sign out everywhere").click()
    page.wait_for_url("**/login/**")
    other.wait_for_url("**/login/**")
    expect(other.locator("input[name=password]")).to_be_visible()
