"""A slot's page in a browser: it stays up to date around what somebody is doing in it."""

from collections.abc import Iterator

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from replview.store.models import Quarantine, Slot, SlotEvent
from tests.browser.conftest import Server
from tests.support.feeder import Feeder

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


def quarantine(feeder: Feeder) -> Quarantine:
    """An insert of transaction 757 that stopped the slot."""
    slot = Slot.objects.get(pk=feeder.slot_id)
    Slot.objects.filter(pk=slot.pk).update(
        state="failed", problem_code="quarantined", problem_cause="a value does not fit"
    )
    raw = b"I\x00\x00\x40\x00N" + b"<b>raw</b>" * 500
    return Quarantine.objects.create(
        slot=slot, incarnation=slot.incarnation, xid=757, relation="public.orders", tag="I",
        raw=raw, raw_bytes=len(raw), cause="a value does not fit", remedy="mend it",
    )  # fmt: skip


def test_skipping_is_a_deliberate_act(page: Page, server: Server, feeder: Feeder) -> None:
    row = quarantine(feeder)
    address = f"{server.url}/slots/{row.slot}/"
    page.goto(address)
    expect(page.locator("h1")).to_contain_text("stopped by a change that could not be stored")

    page.click("#quarantine details.raw summary")
    expect(page.locator("pre.hex")).to_contain_text("|I..@.N<b>raw</b>|")
    page.fill("#confirm-xid", "75")
    # New events appear while opened and typed content stays.
    event = SlotEvent.objects.create(slot=row.slot, kind="failover", message="It moved on.")
    expect(page.locator(f"#event-{event.pk}")).to_contain_text("It moved on.")
    expect(page.locator("pre.hex")).to_be_visible()
    expect(page.locator("#confirm-xid")).to_have_value("75")

    page.press("#confirm-xid", "Enter")
    expect(page.locator("#quarantine-error")).to_contain_text("type 757 to confirm")
    page.fill("#confirm-xid", "757")
    page.press("#confirm-xid", "Enter")
    expect(page.locator("#quarantine")).to_contain_text("watcher decided")
    expect(page.locator("#confirm-xid")).to_have_count(0)
    row.refresh_from_db()
    assert (row.decision, row.decided_by) == ("skip", "watcher")

    row.settled_at = row.decided_at
    row.save()
    Slot.objects.update(state="streaming", problem_code="", problem_cause="")
    expect(page.locator("#quarantine")).to_have_count(0)
    expect(page.locator("#settled")).to_contain_text("skipped by watcher")


def test_an_open_detail_stays_open_while_lines_come_in(
    page: Page, server: Server, feeder: Feeder
) -> None:
    slot = Slot.objects.get(pk=feeder.slot_id)
    first = SlotEvent.objects.create(
        slot=slot, kind="disconnected", message="Cut off.", detail={"code": "cut_off"}
    )
    page.goto(f"{server.url}/slots/{slot}/")
    page.click(f"#detail-{first.pk} summary")
    second = SlotEvent.objects.create(slot=slot, kind="connected", message="Connected again.")

    expect(page.locator(".log-line").first).to_have_attribute("id", f"event-{second.pk}")
    expect(page.locator(f"#detail-{first.pk} dd")).to_be_visible()
    link = page.locator(f"#event-{first.pk} .log-link")
    link.focus()
    link.press("Enter")
    expect(page.locator(".log-line").first).to_have_attribute("id", f"event-{first.pk}")
    expect(page).to_have_url(f"{server.url}/slots/{slot}/?from={first.pk}#event-{first.pk}")
