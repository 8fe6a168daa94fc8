"""Signing in by steps, in a browser: each page through axe, and all of them without scripts."""

import time

import pyotp
import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import Browser, Page, expect

from replview.access import second_factor
from replview.access.accounts import create_account
from replview.access.rights import Role
from replview.store.models import SecondFactor
from tests.browser.axe import findings
from tests.browser.conftest import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

GIVEN, OWN = "given-by-an-admin-4711", "chosen-by-vera-0815-x"
SIZES = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def vera(settings) -> User:
    """An account whose password an admin set, as the server's own process can check it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    return create_account("vera", Role.VIEWER, GIVEN)


def check(page: Page, heading: str) -> None:
    """The page with this heading has no finding, wide and narrow, light and dark."""
    expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    for scheme in ("light", "dark"):
        for size in SIZES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.set_viewport_size(size)
            assert findings(page) == [], (heading, scheme, size)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], (heading, size)


def enter_password(page: Page, server: Server, password: str) -> None:
    page.goto(f"{server.url}/login/?next=/accounts/me/")
    page.get_by_label("User name").fill("vera")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_each_step_has_no_finding(page: Page, server: Server, vera: User) -> None:
    page.context.clear_cookies()
    enter_password(page, server, GIVEN)
    page.get_by_label("New password").fill(OWN)
    page.get_by_label("Repeat it").fill(OWN + "x")
    page.get_by_role("button", name="Change the password and sign in").click()
    check(page, "Choose a password")
    page.get_by_label("New password").fill(OWN)
    page.get_by_label("Repeat it").fill(OWN)
    page.get_by_role("button", name="Change the password and sign in").click()
    check(page, "Second factor")
    page.get_by_role("link", name="Set up a second factor").click()
    secret = page.locator("[data-copy]").get_attribute("data-copy").replace(" ", "")
    app = pyotp.TOTP(secret)
    page.get_by_label("Current password").fill(OWN)
    page.get_by_label("Code that the app shows now").fill("000000")
    page.get_by_role("button", name="Turn it on").click()
    check(page, "Set up a second factor")
    page.get_by_label("Current password").fill(OWN)
    page.get_by_label("Code that the app shows now").fill(app.now())
    page.get_by_role("button", name="Turn it on").click()
    check(page, "Keep these recovery codes")
    page.get_by_role("link", name="I have kept them").click()
    check(page, "Second factor")
    enter_password(page, server, OWN)
    page.get_by_label("Code").fill("000000")
    page.get_by_role("button", name="Sign in", exact=True).click()
    check(page, "Enter the code")
    page.get_by_label("Code").fill(app.at(time.time() + 30))
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(f"{server.url}/accounts/me/")
    connection.close()


def test_it_needs_no_scripts(kept_browser: Browser, server: Server, vera: User) -> None:
    secret = second_factor.new_secret()
    second_factor.set_up(vera, secret, pyotp.TOTP(secret).now())
    SecondFactor.objects.update(last_step=0)
    context = kept_browser.new_context(java_script_enabled=False)
    page = context.new_page()
    enter_password(page, server, GIVEN)
    page.get_by_label("Code").fill(pyotp.TOTP(secret).now())
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("New password").fill(OWN)
    page.get_by_label("Repeat it").fill(OWN)
    page.get_by_role("button", name="Change the password and sign in").click()
    expect(page).to_have_url(f"{server.url}/accounts/me/")
    context.close()
    connection.close()
