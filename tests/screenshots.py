"""``make screenshots``: the pictures of docs/images, taken from a demo, always by the same names.

Run it when a page has changed, and look at what it made. Of a demo that runs already:
``python -m tests.screenshots --at http://127.0.0.1:8642/ --password … [NAME …]``.
"""

import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.support.running_demo import RunningDemo

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))),
    None,
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
SIZE = {"width": 1280, "height": 800}
#: The shop has then shown most of what it can, and the charts have something to draw.
WARM_UP_SECONDS = 150
PATIENCE_MS = 90_000
#: Commands on that demo, so that no page is shown empty.
PREPARED = (
    "mask add --table public.customers --column *email* --when display --note 'seen by nobody'",
    "mask add --table public.payments --column psp_ref --when ingest --note 'not ours to keep'",
    "slot set shop replview --keep-for 90d --yes",
)
#: The wait for content that a page reads after it has loaded: charts, counts, the first news of a
#: socket.
SETTLE_MS = 1_500


@dataclass(frozen=True)
class Picture:
    """One picture: where it is taken, and what is done there before."""

    name: str
    path: str
    prepare: Callable[[Page], None] = lambda page: None


def follow(selector: str) -> Callable[[Page], None]:
    """Go where the first such link leads."""

    def go(page: Page) -> None:
        address = page.locator(selector).first.get_attribute("href")
        page.goto(address_of(page, address or "/"))

    return go


def address_of(page: Page, path: str) -> str:
    """A path on the server that the page is of."""
    return re.sub(r"^(\w+://[^/]+).*$", r"\1", page.url) + path


def until_gone(text: str) -> Callable[[Page], None]:
    """Wait until the page does not say this any more."""
    return lambda page: page.get_by_text(text).first.wait_for(state="hidden", timeout=PATIENCE_MS)


def until_not(text: str) -> Callable[[Page], None]:
    """Look again until the page does not begin with this."""

    def look_again(page: Page) -> None:
        until = time.monotonic() + PATIENCE_MS / 1000
        while page.get_by_text(text).count() and time.monotonic() < until:
            page.wait_for_timeout(SETTLE_MS)
            page.reload()

    return look_again


def until_drawn(page: Page) -> None:
    """Wait until the charts are there."""
    page.wait_for_selector("#lag-charts[aria-busy=false]", timeout=PATIENCE_MS)


def preview_erasure(page: Page) -> None:
    """Preview what an erasure would delete; nothing is deleted."""
    page.locator("#id_rows").fill("public.orders 1000\npublic.orders 1001")
    page.locator("#id_why").fill("request 118")
    page.get_by_role("button", name="Preview", exact=True).click()
    page.wait_for_url(re.compile(r"/erase/\d+/"), timeout=PATIENCE_MS)
    page.get_by_text("This would erase").first.wait_for(timeout=PATIENCE_MS)


SLOT = "slot=shop/replview"
STATUS = f"{SLOT}&table=public.orders&where=status%3A+*+-%3E+*"

PICTURES = (
    Picture("overview", "/"),
    Picture("live", "/live/", until_gone("Connecting.")),
    Picture("in-flight", "/in-flight/", until_not("No transaction is in flight")),
    Picture("transactions", "/transactions/"),
    Picture(
        "transaction",
        f"/transactions/?{SLOT}&ops=U&tables=public.orders&actor=alice",
        follow("main a[href^='/transactions/']:not([href*='?'])"),
    ),
    Picture("find", f"/find/?{STATUS}"),
    Picture("actors", "/actors/"),
    Picture("row-history", f"/find/?{STATUS}", follow("main a[href^='/rows/']")),
    Picture("relations", "/relations/?range=1h"),
    Picture("slots", "/slots/"),
    Picture("slot", "/slots/shop/replview/", until_drawn),
    Picture("lag", f"/lag/?{SLOT}&range=5m", until_drawn),
    Picture("alerts", "/alerts/"),
    Picture("export", "/exports/"),
    Picture("lake", f"/lakes/new/?{SLOT}&tables=public.customers,public.orders&every_minutes=15"),
    Picture("store", "/store/"),
    Picture("sources", "/sources/"),
    Picture("source", "/sources/shop/"),
    Picture("add-a-source", "/sources/new/"),
    Picture("doctor", "/sources/shop/doctor/"),
    Picture("masks", "/privacy/masks/"),
    Picture("access-record", "/privacy/access/"),
    Picture("erase", "/privacy/erase/", preview_erasure),
    Picture("accounts", "/accounts/"),
)


def take(page: Page, base: str, picture: Picture) -> Path:
    """One picture, compressed, into its file."""
    answer = page.goto(base.rstrip("/") + picture.path)
    assert answer is not None
    if answer.status != 200:
        raise SystemExit(f"{picture.path} answers {answer.status}: is this picture's page gone?")
    picture.prepare(page)
    page.wait_for_timeout(SETTLE_MS)
    return save(picture.name, page.screenshot())


def save(name: str, png: bytes) -> Path:
    """Save the picture in 256 colours, at a third of the size: pages need no more."""
    path = IMAGES / f"{name}.png"
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(path, optimize=True)
    return path


def sign_in(page: Page, base: str, name: str, password: str) -> None:
    """Fill in the login form, send it, and wait for the first page."""
    page.goto(f"{base}login/")
    page.fill("[name=username]", name)
    page.fill("[name=password]", password)
    page.press("[name=password]", "Enter")
    page.wait_for_url(base)


@contextmanager
def warm_demo() -> Iterator[tuple[str, str]]:
    """A demo that has run for a while: its address and the login's password."""
    with tempfile.TemporaryDirectory(prefix="replview-pictures-") as folder:
        data = Path(folder)
        data.chmod(0o711)
        with RunningDemo(data / "demo") as demo:
            demo.wait_for("Ctrl-C stops everything")
            password = (
                (data / "demo" / "secrets").read_text().split("LOGIN_PASSWORD=")[1].split()[0]
            )
            for words in PREPARED:
                call = [
                    sys.executable,
                    "manage.py",
                    *shlex.split(words),
                    "--data",
                    str(data / "demo"),
                ]
                subprocess.run(call, cwd=IMAGES.parents[1], check=True)
            time.sleep(WARM_UP_SECONDS)
            yield f"http://127.0.0.1:{demo.port}/", password


def main() -> None:
    """Take all pictures, or those named."""
    parser = ArgumentParser(prog="python -m tests.screenshots")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--at", help="a demo that runs already")
    parser.add_argument("--password", default="")
    options = parser.parse_args()
    IMAGES.mkdir(exist_ok=True)
    if options.at:
        take_all(options.at, options.password, options.names)
    else:
        with warm_demo() as (base, password):
            take_all(base, password, options.names)


def take_all(base: str, password: str, names: list[str]) -> None:
    """Sign in and take them; a page that is refused or gone ends it with an error."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        page.set_default_timeout(PATIENCE_MS)
        sign_in(page, base, "demo", password)
        for picture in PICTURES:
            if names and picture.name not in names:
                continue
            path = take(page, base, picture)
            print(f"{path.name}: {path.stat().st_size // 1024} KB, {page.title()}", flush=True)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
