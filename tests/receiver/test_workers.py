"""Real Celery workers on real Redis: who reads a slot, and what happens when one dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from replview.runtime.servers.redis import EmbeddedRedis
from replview.store.models import Slot
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
TABLE = "CREATE TABLE t (n int PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())"


@dataclass
class Workers:
    """Celery processes of this test, on its store and broker."""

    environment: dict[str, str]
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one Celery process in a process group of its own."""
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "replview", *arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = process
        return process

    def receivers(self, name: str) -> subprocess.Popen[bytes]:
        """A worker for receivers, as ``replview up`` starts it."""
        options = "-Q receivers --pool=threads --concurrency=4 --disable-prefetch"
        quiet = "--without-gossip --without-mingle"
        node = f"receivers-{name}@%h"
        return self.start(name, "worker", *options.split(), *quiet.split(), "-n", node)

    def beat(self) -> None:
        """Beat, and the worker for what it schedules."""
        self.start("beat", "beat", "-s", str(self.folder / "schedule"), "--pidfile=")
        options = "-Q default --pool=threads --concurrency=2 --without-gossip --without-mingle"
        self.start("tasks", "worker", *options.split(), "-n", "tasks@%h")

    def end(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def workers(transactional_db, redis_server: EmbeddedRedis, tmp_path: Path) -> Iterator[Workers]:
    """Processes that share the test's store."""
    at = connection.settings_dict
    store = f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"
    made = Workers(
        {
            **os.environ,
            "REPLVIEW_STORE_URL": store,
            "REPLVIEW_REDIS_URL": redis_server.url(),
            "REPLVIEW_DATA": str(tmp_path),
        },
        tmp_path,
    )
    yield made
    made.end()


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
    first = wait_for(lambda: _read_by(hot.slot), 30)
    second = wait_for(lambda: _read_by(other.slot), 30)
    assert first != second, "the worker with the fewest slots gets the next"

    stop = threading.Event()
    writer = threading.Thread(target=_write_until, args=[source, stop])
    writer.start()
    victim = workers.processes[str(first).split("@")[0].removeprefix("receivers-")]
    before = other.slot.epoch
    os.killpg(victim.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    wait_for(lambda: _read_by(hot.slot) == second, 15)
    assert time.monotonic() - killed_at < 15
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


@pytest.mark.parametrize("whole_group", [False, True], ids=["the worker", "its process group"])
def test_sigterm_stops_it_with_the_last_position_confirmed(
    source: SourceDatabase, record, workers: Workers, whole_group: bool
) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    _readable_by_workers(recording.slot, source)
    workers.beat()
    worker = workers.receivers("a")
    wait_for(lambda: _read_by(recording.slot), 30)
    source.run("INSERT INTO t SELECT generate_series(1, 1000)")
    recording.caught_up()

    if whole_group:
        os.killpg(worker.pid, signal.SIGTERM)
    else:
        worker.terminate()
    # As long as a service manager gives it, which on a quiet machine is far more than it needs.
    worker.wait(30)

    recording.slot.refresh_from_db()
    assert recording.slot.lease_owner == ""
    with psycopg.connect(source.dsn) as session:
        [confirmed] = session.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s",
            [recording.slot.name],
        ).fetchone()
    assert confirmed == str(recording.slot.checkpoint_lsn)
