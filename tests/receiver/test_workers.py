"""Real Celery workers on real Redis: who reads a slot, and what happens when one dies."""

import os
import signal
import threading
import time

import psycopg
import pytest

from replview.store.models import Slot
from tests.support.celery_workers import Workers
from tests.support.celery_workers import workers as workers
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
TABLE = "CREATE TABLE t (n int PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())"


def _read_by(slot: Slot) -> str:
    """The worker that has the slot's lease, once it streams."""
    slot.refresh_from_db()
    return slot.lease_owner if slot.state == Slot.State.STREAMING else ""


def _readable_by_workers(slot: Slot, source: SourceDatabase) -> None:
    slot.source.conninfo = source.dsn
    slot.source.save()


def test_a_killed_worker_loses_its_slot_to_another_and_no_other_slot_pauses(
    source: SourceDatabase, source_cluster_16, record, workers: Workers
) -> None:
    source.run(TABLE, "CREATE TABLE quiet (n int PRIMARY KEY)")
    hot, other = record(source, start=False), record(source, start=False)
    for recording in (hot, other):
        _readable_by_workers(recording.slot, source)
    workers.receivers("a")
    workers.receivers("b")
    workers.beat()
    first = wait_for(lambda: _read_by(hot.slot))
    second = wait_for(lambda: _read_by(other.slot))
    assert first != second, "the worker with the fewest slots gets the next"

    stop = threading.Event()
    writer = threading.Thread(target=_write_until, args=[source, stop])
    writer.start()
    victim = workers.processes[str(first).split("@")[0].removeprefix("receivers-")]
    before = other.slot.epoch
    os.killpg(victim.pid, signal.SIGKILL)
    wait_for(lambda: _read_by(hot.slot) == second)
    stop.set()
    writer.join()
    hot.caught_up()
    other.caught_up()

    other.slot.refresh_from_db()
    assert other.slot.epoch == before, "the other slot was never taken over"
    with source.connect() as session:
        [committed] = session.execute("SELECT count(*) FROM t").fetchone()
    for recording in (hot, other):
        stored = recording.transactions(state="committed")
        assert [t.commit_seq for t in stored] == list(range(1, len(stored) + 1))
        assert sum(t.inserts for t in stored) == committed


def _write_until(source: SourceDatabase, stop: threading.Event) -> None:
    with source.connect() as session:
        number = 0
        while not stop.is_set():
            for _ in range(50):
                number += 1
                session.execute("INSERT INTO t VALUES (%s)", [number])
            time.sleep(0.01)


@pytest.mark.parametrize(
    "whole_group",
    [
        pytest.param(False, id="the worker", marks=pytest.mark.long),
        pytest.param(True, id="its process group"),
    ],
)
def test_sigterm_stops_it_with_the_last_position_confirmed(
    source: SourceDatabase, record, workers: Workers, whole_group: bool
) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    _readable_by_workers(recording.slot, source)
    workers.beat()
    worker = workers.receivers("a")
    wait_for(lambda: _read_by(recording.slot))
    source.run("INSERT INTO t SELECT generate_series(1, 1000)")
    recording.caught_up()

    if whole_group:
        os.killpg(worker.pid, signal.SIGTERM)
    else:
        worker.terminate()
    # Wait as long as a service manager would, which is far more than a quiet machine needs.
    worker.wait(30)

    recording.slot.refresh_from_db()
    assert recording.slot.lease_owner == ""
    with psycopg.connect(source.dsn) as session:
        [confirmed] = session.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s",
            [recording.slot.name],
        ).fetchone()
    assert confirmed == str(recording.slot.checkpoint_lsn)
