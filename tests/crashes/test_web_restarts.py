"""The web server is killed and started again with a browser attached, while a receiver goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from replview.runtime.servers.redis import EmbeddedRedis
from tests.crashes.web import PASSWORD, USER, WebServer
from tests.support.crash_servers import Receive
from tests.support.crash_stores import CrashStore
from tests.support.live_page import ARGUMENTS, CHROMIUM, PATIENCE_MS, rows
from tests.support.source_databases import SourceDatabase

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def web(store: CrashStore, redis_server: EmbeddedRedis, tmp_path: Path) -> Iterator[WebServer]:
    """A running web server."""
    with WebServer(store, redis_server.url(), tmp_path) as server:
        yield server


@pytest.fixture
def page(web: WebServer) -> Iterator[Page]:
    """A signed-in browser that fails the test on any script error."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian's chromium)")
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{web.url}/login/?next=/live/")
        page.fill("input[name=username]", USER)
        page.fill("input[name=password]", PASSWORD)
        page.press("input[name=password]", "Enter")
        page.wait_for_url("**/live/**")
        yield page
        browser.close()
    assert errors == []


@pytest.mark.long
def test_the_live_page_comes_back_by_itself_and_shows_what_it_missed(
    source: SourceDatabase, receive: Receive, page: Page, web: WebServer
) -> None:
    slot = receive(source)
    page.goto(f"{web.url}/live/")
    expect(page.locator("#sentence-title")).not_to_have_text("Connecting.", timeout=PATIENCE_MS)
    source.run("INSERT INTO t VALUES (0, 0, 'before')")
    expect(rows(page)).to_have_count(1, timeout=PATIENCE_MS)

    web.kill()
    expect(page.locator("#sentence-title")).to_have_text("Connection lost.", timeout=PATIENCE_MS)
    for number in range(1, 13):
        source.run(f"INSERT INTO t VALUES ({number}, 0, 'while it is away')")
    slot.caught_up()
    web.start()

    expect(rows(page)).to_have_count(13, timeout=PATIENCE_MS)
    expect(page.locator(".marker-gap")).to_contain_text("12 transactions filled from the store")
    source.run("INSERT INTO t VALUES (13, 0, 'after')")
    expect(rows(page)).to_have_count(14, timeout=PATIENCE_MS)
    shown = [int(text) for text in page.locator("#rows > .row > .col-name").all_text_contents()]
    stored = [t["xid"] for t in slot.transactions("committed")]
    assert shown == stored[::-1]
