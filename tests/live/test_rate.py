"""The rate that the live page shows: known soon, and known from then on."""

import asyncio
import time

import pytest

from replview.live import hub
from replview.live.hub import SlotFeed
from tests.support.feeder import Feeder, single
from tests.support.sockets import connected


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(hub, "time", clock)
    return clock


def noted(clock: Clock, *heads: tuple[float, int]) -> SlotFeed:
    """A feed that has read up to these positions, each so many seconds after the first."""
    feed, began = SlotFeed(1), clock.now
    for after, commit_seq in heads:
        clock.now = began + after
        feed.position.commit_seq = commit_seq
        feed.note_head()
    return feed


def test_the_rate_is_unknown_only_at_the_beginning(clock: Clock) -> None:
    assert noted(clock, (0, 500)).rate is None
    assert noted(clock, (0, 500), (0.4, 508)).rate is None
    assert noted(clock, (0, 500), (1, 520)).rate == 20


def test_the_rate_is_that_of_the_last_five_seconds(clock: Clock) -> None:
    assert noted(clock, *((second, 20 * second) for second in range(60))).rate == 20
    assert noted(clock, (0, 0), (5, 1000), (10, 1000), (15, 1000)).rate == 0


def test_a_slow_read_does_not_make_the_rate_unknown(clock: Clock) -> None:
    assert noted(clock, (0, 0), (6, 120), (6.02, 121)).rate == pytest.approx(20, rel=0.05)


@pytest.mark.django_db(transaction=True)
async def test_a_browser_learns_the_rate_within_five_seconds(feeder: Feeder, cookie: str) -> None:
    async with connected(feeder.slot_id, cookie) as socket:
        await socket.start(cursor=None)
        began, rate = time.monotonic(), None
        while rate is None and time.monotonic() - began < 5:
            await asyncio.to_thread(feeder.commit, single())
            rate = (await socket.receive("batch")).get("rate")

    assert rate
