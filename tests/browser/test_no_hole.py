"""Whatever is stopped and started meanwhile, no browser has a hole in its list."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from replview.runtime.servers.redis import EmbeddedRedis
from tests.browser.conftest import Server, one_server
from tests.support.feeder import Feeder, single
from tests.support.live_page import rows

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("on_live_page"),
]


@pytest.fixture(scope="module")
def redis_server() -> Iterator[EmbeddedRedis]:
    """A Redis of this module alone, which its tests may stop."""
    with EmbeddedRedis.temporary() as server:
        yield server


@pytest.fixture(scope="module")
def kept_server(
    django_db_setup: None,
    redis_server: EmbeddedRedis,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A web server on that Redis."""
    yield from one_server(redis_server, tmp_path_factory)


def xids(page: Page) -> list[int]:
    """The list's xids, newest first."""
    return [int(text) for text in page.locator("#rows > .row > .col-name").all_text_contents()]


def without_hole(page: Page, wanted: int) -> bool:
    """Return True if the page lists ``wanted`` transactions with consecutive xids, newest first."""
    found = xids(page)
    return len(found) == wanted and found == list(range(found[0], found[0] - wanted, -1))


def test_a_restarted_server_leaves_no_hole(page: Page, feeder: Feeder, server: Server) -> None:
    feeder.commit(single())
    expect(rows(page)).to_have_count(1)
    server.stop()
    expect(page.locator("#sentence-title")).to_have_text("Connection lost.")
    feeder.commit(*(single() for _ in range(12)))
    server.start()

    expect(rows(page)).to_have_count(13, timeout=15_000)
    expect(page.locator(".marker-gap")).to_contain_text("12 transactions filled from the store")
    feeder.commit(single())
    expect(rows(page)).to_have_count(14)


def test_a_redis_that_was_away_leaves_no_hole(
    page: Page, feeder: Feeder, redis_server: EmbeddedRedis
) -> None:
    feeder.commit(single())
    expect(rows(page)).to_have_count(1)
    redis_server.stop()
    for _ in range(6):
        feeder.commit(single(), single())
        page.wait_for_timeout(100)
    # Nobody is woken: the store is looked at every two seconds.
    expect(rows(page)).to_have_count(13)
    redis_server.start()
    for _ in range(6):
        feeder.commit(single(), single())
        page.wait_for_timeout(100)

    expect(rows(page)).to_have_count(25)
    assert without_hole(page, 25)


def test_five_browsers_see_every_commit(page: Page, feeder: Feeder, server: Server) -> None:
    pages = [page, *(page.context.new_page() for _ in range(4))]
    for other in pages[1:]:
        other.goto(f"{server.url}/live/")
        expect(other.locator("#empty")).to_be_visible()
    for _ in range(20):
        feeder.commit(single())

    for each in pages:
        each.bring_to_front()  # a page in the background draws nothing
        expect(rows(each)).to_have_count(20)
        assert without_hole(each, 20)
