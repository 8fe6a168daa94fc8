"""A row's history in a browser: a line opened where it stands, moments in local time, keys."""

from collections.abc import Iterator

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from replview.store.models import Slot
from replview.text.addresses import row_url
from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(autouse=True)
def no_session_left(page: Page) -> Iterator[None]:
    """Close the store connection that the test opened while Playwright's event loop runs."""
    yield
    connection.close()


@pytest.fixture
def row(page: Page, server: Server, feeder: Feeder) -> Page:
    """The history of order 42, seen from Calcutta: created and paid."""
    order = {"id": "42", "customer_id": "7", "status": "new", "note": None}
    feeder.commit(
        NewTransaction([NewChange("orders", "I", order)], actor="alice"),
        NewTransaction([NewChange("orders", "U", {**order, "status": "paid"})], actor="bob"),
    )
    zone = {"timezoneId": "Asia/Kolkata"}
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", zone)
    slot = Slot.objects.select_related("source").get(pk=feeder.slot_id)
    page.goto(f"{server.url}{row_url(slot, 'public', 'orders', {'id': '42'})}")
    return page


def test_a_line_opens_where_it_stands(row: Page) -> None:
    created = row.locator(".row-line").last
    before = row.url
    expect(created.locator(".block")).to_have_count(0)

    row.keyboard.press("j")
    row.keyboard.press("j")
    expect(created.locator(".row-open")).to_be_focused()
    row.keyboard.press("Enter")
    expect(created.locator(".block")).to_contain_text("customer_id")
    expect(created.locator(".row-open")).to_have_attribute("aria-expanded", "true")
    assert row.url == before

    row.keyboard.press("Enter")
    expect(created.locator(".block")).to_be_hidden()
    expect(created.locator(".row-open")).to_have_attribute("aria-expanded", "false")


def test_a_moment_is_typed_in_local_time(row: Page) -> None:
    form = row.locator("[data-as-of]")
    expect(form.locator("[data-zone]")).to_have_text("+05:30")
    form.locator("[name=as_of]").fill("2020-07-01 14:00:00")
    form.locator("[name=as_of]").press("Enter")

    row.wait_for_url("**as_of=2020-07-01T08%3A30%3A00*")
    field = row.locator("[data-as-of] [name=as_of]")
    expect(field).to_have_value("2020-07-01 14:00:00")
    expect(row.locator("[data-as-of] [data-zone]")).to_have_text("+05:30")


def test_its_download_is_of_the_row(row: Page) -> None:
    row.locator(".download > summary").click()
    with row.expect_download() as taken:
        row.get_by_role("link", name="JSON lines").click()

    assert len(taken.value.path().read_text().splitlines()) == 2
