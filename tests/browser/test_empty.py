"""The empty list: why, the proof that we looked, and a test message that comes back."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.support.feeder import Feeder, NewChange, NewTransaction
from tests.support.live_page import rows

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("on_live_page"),
]


def test_it_says_where_it_is_connected_and_what_is_published(page: Page, feeder: Feeder) -> None:
    feeder.connection.execute("UPDATE slot SET server_lsn = '0/1B200', published_tables = 7")
    feeder.publisher.slot_changed(feeder.slot_id)

    expect(page.locator("#empty-title")).to_have_text("No commits yet")
    expect(page.locator("#empty-why")).to_contain_text("Connected at 0/1B200, checked")
    expect(page.locator("#empty-why")).to_contain_text("No commits on 7 published tables.")
    feeder.connection.execute("UPDATE slot SET published_tables = NULL")
    feeder.publisher.slot_changed(feeder.slot_id)
    expect(page.locator("#empty-why")).to_contain_text("No commits on the published tables.")


def test_a_test_message_is_sent_to_the_source(page: Page, feeder: Feeder, source) -> None:
    feeder.connection.execute("UPDATE source SET conninfo = %s", [source.dsn])
    call = (
        """SELECT pg_logical_emit_message(true, 'replview', '{"actor": "watcher", "test": true}')"""
    )
    expect(page.locator("#test-message pre")).to_have_text(f"{call};")
    page.click("#test-send")
    expect(page.locator(".toast")).to_contain_text("Test message sent at ")

    message = NewChange(None, "M", {"prefix": "replview", "content": "{}"})
    feeder.commit(NewTransaction([message], actor="watcher", grade="claimed"))
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#test-message")).to_be_hidden()


def test_a_message_that_cannot_be_sent_says_why(page: Page, feeder: Feeder) -> None:
    nowhere = "host=127.0.0.1 port=1 dbname=shop user=u"
    feeder.connection.execute("UPDATE source SET conninfo = %s", [nowhere])
    page.click("#test-send")

    trouble = page.locator("#test-trouble")
    expect(trouble).to_contain_text("Not sent. No server answers at 127.0.0.1:1.")
    expect(trouble).to_contain_text("Check host and port")


def test_a_slot_in_trouble_has_no_green_tick(page: Page, feeder: Feeder, server: Server) -> None:
    expect(page.locator("#sentence-title")).to_have_text("Live.")
    feeder.open(NewTransaction(state="prepared", gid="forgotten", counts={"orders": [1, 0, 0, 0]}))
    feeder.connection.execute("UPDATE transaction SET prepared_at = now() - interval '1 hour'")

    expect(page.locator("#sentence-title")).to_contain_text("A prepared transaction has been open")
    expect(page.locator("#sentence-icon")).to_have_class("icon health-look")
    expect(page.locator("#sentence-rest")).to_contain_text(
        "COMMIT PREPARED 'forgotten' or ROLLBACK PREPARED 'forgotten'"
    )
