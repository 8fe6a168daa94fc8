"""Told to stop, a receiver is gone soon, whatever it waits for."""

import socket
import threading
import time
from contextlib import suppress

import psycopg
import pytest

from replview.store.connecting import connect_store
from tests.receiver.conftest import BOTH_INTERFACES
from tests.support.recording import Recording, leave_none, receiving, store_hangs
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

TABLE = "CREATE TABLE t (n int PRIMARY KEY, filler text)"
#: A receiver is left to itself after 4.5 s; what it waits for here would take 10 s or more.
SOON_SECONDS = 9
_RUN_OUT = """
    SELECT FROM slot
    WHERE id = %s AND heartbeat_at < clock_timestamp() - make_interval(secs => %s)
"""


def _seconds_to_stop(recording: Recording) -> float:
    started = time.monotonic()
    recording.end()
    return time.monotonic() - started


@BOTH_INTERFACES
def test_while_a_host_does_not_answer(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        recording.dsn = f"host=127.0.0.1 port={deaf.getsockname()[1]} dbname=x user=y"
        recording.start()
        with deaf.accept()[0]:
            assert _seconds_to_stop(recording) < SOON_SECONDS

    recording.slot.refresh_from_db()
    assert (recording.slot.lease_owner, recording.slot.state) == ("", "stopped")


@BOTH_INTERFACES
def test_while_waiting_out_a_pause(source: SourceDatabase, record, caplog) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    recording.dsn = "host=127.0.0.1 port=1 dbname=x user=y"
    recording.start()
    recording.problem("unreachable")
    recording.end()

    assert "left to itself" not in caplog.text


@BOTH_INTERFACES
@pytest.mark.slow
def test_while_the_store_hangs(source: SourceDatabase, record, settings) -> None:
    source.run(TABLE)
    recording = record(source)
    with connect_store() as blocker:
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM slot WHERE id = %s FOR UPDATE", [recording.slot.pk])
        source.run("INSERT INTO t VALUES (1)")
        wait_for(lambda: store_hangs(blocker))

        assert _seconds_to_stop(recording) < SOON_SECONDS

        blocker.execute("ROLLBACK")
    # The lease could not be given back: it runs out.
    settings.LEASE_SECONDS = 0.5
    lease = [recording.slot.pk, settings.LEASE_SECONDS]
    with connect_store() as store:
        wait_for(lambda: store.execute(_RUN_OUT, lease).fetchone() is not None)
    recording.start()
    recording.caught_up()
    assert [t.commit_seq for t in recording.transactions()] == [1]


@pytest.mark.slow
def test_one_that_is_left_to_itself_does_not_outlive_its_test(transactional_db: None) -> None:
    waiting = threading.Event()

    def wait() -> None:
        with suppress(psycopg.Error), connect_store("replview receiver") as store:
            waiting.set()
            store.execute("SET statement_timeout = 0; SELECT pg_sleep(600)")

    threading.Thread(target=wait, name="receiver", daemon=True).start()
    assert waiting.wait(60)

    leave_none([], 0.5)

    assert not receiving()


@BOTH_INTERFACES
@pytest.mark.slow
def test_in_the_middle_of_a_flood(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)
    stop = threading.Event()

    def flood() -> None:
        with source.connect() as session:
            first = 0
            while not stop.is_set():
                session.execute(
                    "INSERT INTO t SELECT n, repeat('x', 200) "
                    f"FROM generate_series({first}, {first + 1999}) n"
                )
                first += 2000

    flooding = threading.Thread(target=flood)
    flooding.start()
    wait_for(lambda: len(recording.transactions(state="committed")) > 5)
    assert _seconds_to_stop(recording) < SOON_SECONDS
    stop.set()
    flooding.join()
    recording.start()
    recording.caught_up()

    stored = recording.transactions(state="committed")
    assert [t.commit_seq for t in stored] == list(range(1, len(stored) + 1))
    with source.connect() as session:
        [rows] = session.execute("SELECT count(*) FROM t").fetchone()
    assert sum(t.inserts for t in stored) == rows
