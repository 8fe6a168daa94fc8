"""Wake-ups: coalesced, sent off the caller's thread, never in its way."""

import threading
import time
from typing import Any

import pytest

from replview.live.events import SLOT, Wake
from replview.live.publisher import Publisher
from tests.support.waiting import wait_for


class Layer:
    """A channel layer that notes what is sent; ``delay`` or ``error`` spoil it."""

    def __init__(self, *, delay: float = 0.0, error: Exception | None = None) -> None:
        self.delay, self.error = delay, error
        #: Sending was begun, whatever becomes of it.
        self.began = threading.Event()
        self.failed = False
        self.sent: list[tuple[float, str, dict[str, Any]]] = []

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        import asyncio

        self.began.set()
        await asyncio.sleep(self.delay)
        if self.error:
            self.failed = True
            raise self.error
        self.sent.append((time.monotonic(), group, message))


def test_the_first_wake_up_goes_out_at_once() -> None:
    layer = Layer()
    publisher = Publisher(layer)
    publisher.wake(1, 10, 5, False)
    # Not with the closing.
    wait_for(lambda: layer.sent)
    publisher.close()

    assert layer.sent[0][1:] == (
        "slot.1",
        {"type": "replview.wake", "kind": "commit", "slot": 1, "incarnation": 10,
         "commit_seq": 5, "open_changed": False},
    )  # fmt: skip


def test_many_wake_ups_become_few_and_the_latest_cursor_wins() -> None:
    layer = Layer()
    publisher = Publisher(layer, sends_per_second=20)
    began = time.monotonic()
    for commit_seq in range(1, 401):
        publisher.wake(1, 10, commit_seq, commit_seq == 7)
        time.sleep(0.001)
    publisher.close()
    took = time.monotonic() - began

    assert 2 <= len(layer.sent) <= 20 * took + 3
    assert layer.sent[-1][2]["commit_seq"] == 400
    assert any(message["open_changed"] for _, _, message in layer.sent)


def test_slots_do_not_slow_each_other() -> None:
    layer = Layer()
    publisher = Publisher(layer)
    for slot_id in range(1, 6):
        publisher.wake(slot_id, 10, 1, False)
    publisher.close()

    assert {group for _, group, _ in layer.sent} == {f"slot.{n}" for n in range(1, 6)}


@pytest.mark.slow
def test_it_never_blocks_while_redis_hangs() -> None:
    layer = Layer(delay=60)
    publisher = Publisher(layer)
    publisher.wake(1, 10, 1, False)
    assert layer.began.wait(60)
    began = time.monotonic()
    for commit_seq in range(2, 10_002):
        publisher.wake(1, 10, commit_seq, False)
    took = time.monotonic() - began
    publisher.close()

    # Less than a single send takes.
    assert took < 30


def test_it_goes_on_after_redis_was_away() -> None:
    layer = Layer(error=ConnectionError("away"))
    publisher = Publisher(layer)
    publisher.wake(1, 10, 1, False)
    wait_for(lambda: layer.failed)
    layer.error = None
    publisher.wake(1, 10, 2, False)
    publisher.close()

    assert [message["commit_seq"] for _, _, message in layer.sent] == [2]


def test_a_group_that_is_quiet_again_is_forgotten() -> None:
    publisher = Publisher(Layer(), sends_per_second=1_000)
    for export_id in range(50):
        publisher.export_changed(export_id)
        wait_for(lambda: not publisher._pending)
        time.sleep(0.002)
    publisher.close()

    assert len(publisher._last_sent) < 5


def test_closing_sends_what_is_pending() -> None:
    layer = Layer()
    publisher = Publisher(layer, sends_per_second=0.1)
    publisher.wake(1, 10, 1, False)
    wait_for(lambda: layer.sent)
    publisher.wake(1, 10, 2, False)
    publisher.close()

    assert layer.sent[-1][2]["commit_seq"] == 2


def test_a_slot_s_news_is_not_lost_in_a_commit_s() -> None:
    merged = Wake(slot_id=1, kind=SLOT).merged_with(
        Wake(slot_id=1, incarnation_id=3, commit_seq=9, open_changed=True)
    )

    assert (merged.kind, merged.incarnation_id, merged.commit_seq) == (SLOT, 3, 9)
    assert Wake.from_message(merged.to_message()) == merged
