"""An own database, from an empty install to live, as a new user would go; and the ways out of it.

The web server, the workers and beat are real, the source is a PostgreSQL 16 with fifty tables, of
which three have no key, and a role that may not replicate yet.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from replview.store.models import AccessRecord, Slot, Source, SourceDraft
from replview.store.retention.tidy import make_partitions
from tests.browser.axe import findings
from tests.browser.conftest import SESSIONS, Server
from tests.support.celery_workers import Workers
from tests.support.fed_store import store_dsn
from tests.support.live_page import PATIENCE_MS, rows
from tests.support.people import make_user
from tests.support.source_databases import SourceDatabase, fresh_database
from tests.support.source_traces import left_on

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ROLE, PASSWORD = "shop_owner", "geheim"
KEYLESS = ("audit_trail", "page_views", "raw_events")


@pytest.fixture
def shop(source_cluster_16) -> Iterator[SourceDatabase]:
    """Fifty tables in two schemas, all of a role that may log in and no more."""
    made = fresh_database(source_cluster_16)
    source = next(made)
    tables = [f"CREATE TABLE t{number:02} (id int PRIMARY KEY, note text)" for number in range(36)]
    tables += [f"CREATE TABLE billing.b{number} (id int PRIMARY KEY)" for number in range(10)]
    tables += [f"CREATE TABLE {name} (at timestamptz, what text)" for name in KEYLESS]
    source.run(
        f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'",
        f"ALTER DATABASE {source.name} OWNER TO {ROLE}",
        f"SET ROLE {ROLE}",
        "CREATE SCHEMA billing",
        "CREATE TABLE customers (id int PRIMARY KEY, email text, phone text, city text)",
        *tables,
        "RESET ROLE",
        f"ALTER SCHEMA public OWNER TO {ROLE}",
    )
    yield source
    next(made, None)
    SourceDatabase(source.server, "postgres").run(f"DROP ROLE {ROLE}")


@pytest.fixture
def installed(
    transactional_db: None, redis_server, kept_server: Server, tmp_path: Path
) -> Iterator[Server]:
    """An empty install: all of replview's processes, and nothing in the store but an admin."""
    make_partitions()
    at = connection.settings_dict
    store = f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"
    environment = {
        **os.environ,
        "REPLVIEW_STORE_URL": store,
        "REPLVIEW_REDIS_URL": redis_server.url(),
        "REPLVIEW_DATA": str(tmp_path),
        "REPLVIEW_SECRET_KEY": settings.SECRET_KEY,
        "PGAPPNAME": SESSIONS,
    }
    workers = Workers(environment, tmp_path)
    workers.receivers("a")
    workers.beat()
    kept_server.start()
    yield kept_server
    workers.end()
    # Queries still running would block the emptying of the tables, or be blocked by it.
    kept_server.stop()
    _wait_until(lambda: not _sessions())


def _sessions() -> int:
    with psycopg.connect(store_dsn()) as session:
        found = session.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            " AND datname = current_database()",
            [SESSIONS],
        ).fetchone()
    return int(found[0]) if found else 0


def _wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def new_user(kept_browser: Browser, installed: Server) -> Iterator[Page]:
    """The admin's browser, on the first page; any script error fails the test."""
    client = Client()
    client.force_login(make_user("root", "admin"))
    name = settings.SESSION_COOKIE_NAME
    context = kept_browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": installed.url}])
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(installed.url)
    yield page
    context.close()
    assert errors == []


def connect(page: Page, source: SourceDatabase, password: str = PASSWORD) -> None:
    """Fill in the form field by field, by keyboard, and test the connection."""
    expect(page.locator("#f-host")).to_be_focused()
    page.keyboard.type("127.0.0.1")
    for text in (str(source.server.port), source.name, ROLE, password):
        page.keyboard.press("Tab")
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
    page.keyboard.press("Enter")


def press_primary(page: Page) -> None:
    """The one primary action of a step."""
    page.locator(".onboard-end .btn-primary").click()


def go_on(page: Page) -> None:
    """Assert that axe finds nothing on the page, and press its primary button."""
    assert findings(page) == []
    press_primary(page)


def heading(page: Page) -> Page:
    """The sentence over the page."""
    return page.locator("#sentence h1 b")


def test_a_new_user_gets_from_an_empty_install_to_live(
    new_user: Page, shop: SourceDatabase
) -> None:
    page, began = new_user, time.monotonic()
    expect(heading(page)).to_have_text("No source yet.")
    expect(page.locator(".card")).to_have_count(3)
    page.get_by_role("link", name="Record a database").click()

    connect(page, shop, "wrong")
    wrong = page.locator("#e-password")
    expect(wrong).to_contain_text("refused the password of role shop_owner")
    expect(page.locator("#f-password")).to_be_focused()
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")

    # The role may not replicate: the page says what mends it, and looks again.
    mend = page.locator(".finding-now .sql pre").first
    expect(mend).to_have_text(f'ALTER ROLE "{ROLE}" REPLICATION;')
    shop.run(mend.inner_text())
    go_on(page)
    expect(page.locator(".finding-now")).to_have_count(0)
    go_on(page)

    expect(page.locator(".ob-list tbody tr")).to_have_count(50)
    expect(page.locator("[data-summary]")).to_have_text(
        "50 of 50 tables chosen, 3 with inserts only"
    )
    expect(page.locator(".ob-keyless summary")).to_contain_text("3 tables have no key")
    billing = page.locator('[data-schema-toggle="billing"]')
    expect(billing).to_be_checked()
    billing.uncheck()
    page.locator("[data-filter]").fill("t0")
    expect(page.locator(".ob-list tbody tr:visible")).to_have_count(10)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(page.locator("[data-summary]")).to_have_text(
        "39 of 50 tables chosen, 3 with inserts only"
    )
    go_on(page)

    expect(page.locator(".ob-rule-list tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Mask all of them").click()
    expect(page.locator('[name="public.customers|email"][value="mask"]')).to_be_checked()
    go_on(page)

    expect(page.locator("#f-slot_name")).to_have_value("replview")
    go_on(page)

    expect(page.locator(".ob-statement")).to_have_count(3)
    expect(page.locator(".ob-statement").first).to_contain_text('CREATE PUBLICATION "replview"')
    assert left_on(shop) == (set(), set()), "nothing was made yet"
    go_on(page)

    page.wait_for_url("**/live/?slot=**")
    expect(page.locator("#empty-title")).to_have_text("No commits yet")
    shop.run("INSERT INTO customers VALUES (1, 'a@example.org', '555', 'Bonn')")
    expect(rows(page)).to_have_count(1)
    seconds = time.monotonic() - began
    print(f"\nfrom the first page to a commit on screen: {seconds:.1f} s")
    assert seconds < 300

    expect(rows(page).first).to_contain_text("customers")
    slot = Slot.objects.get()
    assert slot.column_rules == {"public.customers": {"email": "mask", "phone": "mask"}}
    assert left_on(shop) == ({"replview", "replview_inserts"}, {"replview"})
    made = AccessRecord.objects.get(action="changed_slot")
    assert (made.user_name, made.via) == ("root", "page")


@pytest.mark.long
def test_what_is_cancelled_or_only_watched_leaves_nothing(
    new_user: Page, shop: SourceDatabase
) -> None:
    page = new_user
    shop.run(f"ALTER ROLE {ROLE} REPLICATION")
    page.get_by_role("link", name="Record a database").click()
    connect(page, shop)
    for step in ("check", "tables", "columns", "options"):
        page.wait_for_url(f"**/{step}/")
        press_primary(page)
    page.wait_for_url("**/review/")
    # Back and a reload keep what was entered.
    page.go_back()
    page.reload()
    expect(page.locator("#f-slot_name")).to_have_value("replview")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("[role=status]").first).to_contain_text("Nothing is left")
    assert not SourceDraft.objects.exists()

    page.get_by_role("link", name="Record a database").click()
    connect(page, shop)
    for step in ("check", "tables", "columns", "options", "review"):
        page.wait_for_url(f"**/{step}/")
        if step != "review":
            press_primary(page)
    with shop.connect() as writer:
        # The slot has to wait for it: time to think better of it.
        writer.execute("BEGIN; INSERT INTO t01 VALUES (1)")
        press_primary(page)
        expect(page.locator(".ob-line-running")).to_contain_text("Create slot replview")
        expect(page.locator(".ob-line-running")).to_contain_text("waits for")
        page.get_by_role("button", name="Cancel and undo").click()
        expect(heading(page)).to_have_text("Cancelled.")
    assert left_on(shop) == (set(), set())
    assert not Source.objects.exists()

    page.get_by_role("link", name="Start again").click()
    page.get_by_role("link", name="Watch a database").click()
    connect(page, shop)
    for step in ("check", "tables", "columns", "review"):
        page.wait_for_url(f"**/{step}/")
        press_primary(page)
    page.wait_for_url("**/live/?slot=watch-**")
    expect(page.locator("#empty-title")).to_have_text("No commits yet")
    shop.run("INSERT INTO t02 VALUES (1)")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Stop watching").click()
    expect(heading(page)).to_have_text("The watch has ended.")
    _wait_until(lambda: left_on(shop) == (set(), set()))
    _wait_until(lambda: not Source.objects.exists(), 40)
