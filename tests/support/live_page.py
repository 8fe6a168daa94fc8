"""The live page in Chromium: how the browser starts, and what a test reads from the page."""

import shutil
from typing import Any

from playwright.sync_api import Page

#: Without a window of its own it takes a third of the time: Debian's chromium-headless-shell.
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))),
    None,
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: The time allowed for a page; a busy machine may need it.
PATIENCE_MS = 20_000


def rows(page: Page) -> Any:
    """The transactions in the list."""
    return page.locator("#rows > .row[data-id]")
