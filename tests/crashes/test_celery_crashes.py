"""A Celery worker with several slots is killed; Redis goes away and comes back."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replview.runtime.servers.redis import EmbeddedRedis
from tests.crashes.celery_processes import celery_processes
from tests.crashes.truth import assert_true_record
from tests.support.celery_workers import Workers
from tests.support.crash_servers import Receive
from tests.support.crash_stores import CrashStore
from tests.support.received_slots import ReceivedSlot
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow


@pytest.fixture
def redis() -> Iterator[EmbeddedRedis]:
    """A Redis of this test alone, which it may stop."""
    with EmbeddedRedis.temporary() as server:
        yield server


@pytest.fixture
def workers(store: CrashStore, redis: EmbeddedRedis, tmp_path: Path) -> Iterator[Workers]:
    """Celery processes on the test's store and Redis."""
    with celery_processes(store, redis, tmp_path) as processes:
        yield processes


def _owners(slots: list[ReceivedSlot]) -> set[str]:
    """The workers that read these slots, once all are live."""
    rows = [slot.row() for slot in slots]
    if any(row["state"] != "streaming" for row in rows):
        return set()
    return {row["lease_owner"].split("@")[0] for row in rows}


@pytest.mark.long
def test_the_slots_of_a_killed_worker_go_on_at_another(
    source: SourceDatabase, receive: Receive, workers: Workers
) -> None:
    slots = [receive(source, start=False) for _ in range(3)]
    first = workers.receivers("a")
    workers.beat()
    wait_for(lambda: _owners(slots) == {"receivers-a"}, 90)
    workers.receivers("b")
    with Workload(source, writers=1) as workload:
        workload.more(10)
        os.killpg(first.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        first.wait()
        wait_for(lambda: _owners(slots) == {"receivers-b"}, 60, "the other worker takes over")
        print(f"three slots of a killed worker live again: {time.monotonic() - killed_at:.1f} s")
        workload.more(10)
    for slot in slots:
        slot.caught_up()
        assert_true_record(slot)
        slot.says("took over")


@pytest.mark.long
def test_a_receiver_stores_on_while_redis_is_away_and_its_workers_come_back(
    source: SourceDatabase, receive: Receive, workers: Workers, redis: EmbeddedRedis
) -> None:
    slot = receive(source, start=False)
    workers.receivers("a")
    workers.beat()
    wait_for(lambda: _owners([slot]), 90)
    epoch = slot.row()["epoch"]
    with Workload(source, writers=1) as workload:
        workload.more(5)
        redis.stop()
        for _ in range(5):
            before = slot.stored_lsn()
            wait_for(lambda before=before: slot.stored_lsn() > before, what="it goes on storing")
        redis.start()
        back_at = time.monotonic()
        # Beat and workers find Redis again by themselves: what is offered now is taken.
        later = receive(source, start=False)
        wait_for(lambda: _owners([later]), 90, "a new slot is offered and taken")
        print(f"a new slot is received {time.monotonic() - back_at:.1f} s after Redis is back")
        workload.more(5)
    slot.caught_up()

    assert_true_record(slot)
    assert slot.row()["epoch"] == epoch, "nobody took it over meanwhile"
    assert slot.events("disconnected") == []
