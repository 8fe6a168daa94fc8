"""The live page in a real Chromium, served by a real uvicorn, fed through a real Redis."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, expect, sync_playwright

from replview.runtime.machine import free_port
from tests.support.fed_store import cookie as cookie  # a fixture
from tests.support.fed_store import feeder as feeder  # a fixture
from tests.support.fed_store import store_dsn
from tests.support.feeder import Feeder
from tests.support.live_page import ARGUMENTS, CHROMIUM, PATIENCE_MS

ROOT = Path(__file__).resolve().parents[2]
#: The server's sessions in the store are known by this name.
SESSIONS = "replview-browser-test"
#: Prefixes the server's keys on Redis, where the test sends wake-ups too.
INSTANCE = "browser"
#: The time allowed for the web server to start, unless it ends before: a start takes a second and a
#: half of a processor, which a busy machine hands out in small pieces.
START_SECONDS = 300


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Expectations wait as long as a busy machine needs."""
    expect.set_options(timeout=PATIENCE_MS)
    yield
    expect.set_options(timeout=5_000)


class Server:
    """uvicorn on the test's store and Redis; stops and starts on the same port."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        parts = dict(pair.split("=", 1) for pair in store_dsn().split())
        store = (
            f"postgresql://{parts['user']}:{parts['password']}"
            f"@{parts['host']}:{parts['port']}/{parts['dbname']}"
        )
        self.port = free_port(None)
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = {
            **os.environ,
            "REPLVIEW_STORE_URL": store,
            "REPLVIEW_REDIS_URL": redis_url,
            # Sessions made by the test hold there too.
            "REPLVIEW_SECRET_KEY": settings.SECRET_KEY,
            "REPLVIEW_DATA": str(folder),
            "REPLVIEW_INSTANCE": INSTANCE,
            "REPLVIEW_DEBUG": "1",
            # With the page that makes trouble, too.
            "REPLVIEW_DEMO": "1",
            "PGAPPNAME": SESSIONS,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, unless it runs already, and wait for its first answer."""
        if self._process is not None and self._process.poll() is None:
            return
        command = [sys.executable, "-m", "uvicorn", "replview.asgi:application"]
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port), "--log-level", "warning"],
            cwd=ROOT,
            env=self._environment,
        )
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/login/", timeout=60):
                    return
            except OSError:
                time.sleep(0.1)
        code = self._process.poll()
        ended = f"did not answer within {START_SECONDS} s" if code is None else f"ended: {code}"
        self.stop()
        raise AssertionError(f"uvicorn {ended}")

    def stop(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(scope="package")
def kept_server(
    django_db_setup: None, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One web server for all tests here: starting it takes longer than most of them."""
    yield from one_server(redis_server, tmp_path_factory)


def one_server(redis: Any, folders: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a web server, for fixtures of modules that have a Redis of their own."""
    running = Server(redis.url(), folders.mktemp("server"))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def server(feeder: Feeder, kept_server: Server) -> Iterator[Server]:
    """A running web server beside the feeder; both on one channel layer."""
    settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = f"replview-{INSTANCE}"
    # A receiver that gives a heartbeat for as long as a test takes.
    feeder.connection.execute("UPDATE slot SET heartbeat_at = now() + interval '1 hour'")
    kept_server.start()
    yield kept_server
    # Queries still running would block the emptying of the tables, or be blocked by it.
    if not wait_until_it_rests(feeder):
        kept_server.stop()
        wait_for_its_sessions_to_end(feeder)


def wait_until_it_rests(feeder: Feeder) -> bool:
    """Return True if the server's sessions in the store become idle within three seconds."""
    busy = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        " AND datname = current_database() AND state <> 'idle'"
    )
    until = time.monotonic() + 3
    while feeder.connection.execute(busy, [SESSIONS]).fetchone() != (0,):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def wait_for_its_sessions_to_end(feeder: Feeder) -> None:
    """A killed server's sessions end a moment later, and hold the test database until then."""
    left = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = %s AND datname = current_database()"
    )
    until = time.monotonic() + 20
    while feeder.connection.execute(left, [SESSIONS]).fetchone() != (0,):
        assert time.monotonic() < until, "the server's sessions in the store did not end"
        time.sleep(0.05)


@pytest.fixture(scope="package")
def kept_browser() -> Iterator[Browser]:
    """One browser for all tests here, each with a profile of its own.

    No longer than that: while Playwright's loop runs, no asynchronous test can.
    """
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian's chromium)")
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Playwright's loop runs in this thread.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(kept_browser: Browser, server: Server, cookie: str) -> Iterator[Page]:
    """A signed-in page, still empty, that fails the test on any script error."""
    context = kept_browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    name, value = cookie.split("=", 1)
    context.add_cookies([{"name": name, "value": value, "url": server.url}])
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def on_live_page(page: Page, server: Server) -> None:
    """The page shows the live page, which is connected."""
    page.goto(f"{server.url}/live/")
    expect(page.locator("#sentence-title")).not_to_have_text("Connecting.")
