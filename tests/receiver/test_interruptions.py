"""A slow store, a store that goes away, a server that restarts: nothing lost, nothing twice."""

import os
import threading

import pytest

from decoder.scalars import LSN
from replview.receiver.sessions.pacing import Feedback
from replview.runtime.failpoints import FailpointReached, Point
from replview.store.connecting import connect_store
from tests.receiver.conftest import BOTH_INTERFACES
from tests.support.copied_clusters import copied
from tests.support.failpoints import armed
from tests.support.recording import store_hangs
from tests.support.source_databases import SOURCE_SETTINGS, SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE t (n int PRIMARY KEY)"


#: The receiver's session has answered the server for so long since then, without a new connection.
_ANSWERED = """
    SELECT FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid
    WHERE s.slot_name = %s AND r.pid = %s AND r.reply_time > %s + make_interval(secs => %s)
"""


@pytest.mark.slow
def test_keepalives_are_answered_while_the_store_hangs(
    source: SourceDatabase, record, settings
) -> None:
    settings.WALSENDER_TIMEOUT_SECONDS = 3.0
    # However slow the machine is, the store is not given up meanwhile.
    settings.STORE_GONE_SECONDS = 120.0
    source.run(TABLE)
    recording = record(source)
    with connect_store() as blocker, source.connect() as session:
        [walsender] = session.execute(
            "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s",
            [recording.slot.name],
        ).fetchone()
        blocker.execute("SET idle_in_transaction_session_timeout = 0")
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM slot WHERE id = %s FOR UPDATE", [recording.slot.pk])
        source.run("INSERT INTO t VALUES (1)")
        wait_for(lambda: store_hangs(blocker))
        [hangs_since] = session.execute("SELECT clock_timestamp()").fetchone()
        # Longer than the walsender's timeout.
        beyond = [recording.slot.name, walsender, hangs_since, 4.5]
        wait_for(lambda: session.execute(_ANSWERED, beyond).fetchone() is not None)
        assert store_hangs(blocker)
        blocker.execute("ROLLBACK")
    recording.caught_up()

    assert not recording.slot.events.filter(kind="disconnected").exists()
    assert [t.commit_seq for t in recording.transactions()] == [1]


@BOTH_INTERFACES
def test_the_slot_is_advanced_only_once_stored(source: SourceDatabase, record, monkeypatch) -> None:
    turns: list[int] = []
    looked_at: list[LSN] = []
    stored = Feedback.stored

    def noting(self: Feedback, lsn: int) -> None:
        turns.append(lsn)
        stored(self, lsn)

    def look_and_fail() -> None:
        """Read the slot's position before the COMMIT; fail the first of two store transactions."""
        # A receiver that confirms too early does it meanwhile, or when it closes its session.
        enough = len(turns) + 6
        wait_for(lambda: len(turns) >= enough)
        looked_at.append(_confirmed(source, recording.slot.name))
        if len(looked_at) == 1:
            raise FailpointReached(Point.AFTER_COPY)

    monkeypatch.setattr(Feedback, "stored", noting)
    source.run(TABLE)
    recording = record(source)
    recording.caught_up()
    with armed(Point.AFTER_COPY, look_and_fail):
        source.run("INSERT INTO t SELECT generate_series(1, 10)")
        recording.caught_up()

    [transaction] = recording.transactions()
    assert transaction.inserts == 10
    assert len(looked_at) == 2
    assert max(looked_at) < transaction.end_lsn
    wait_for(lambda: _confirmed(source, recording.slot.name) >= transaction.end_lsn)


def _confirmed(source: SourceDatabase, slot: str) -> LSN:
    query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
    with source.connect() as session:
        [text] = session.execute(query, [slot]).fetchone()
    return LSN.parse(text)


@BOTH_INTERFACES
def test_a_store_that_drops_the_connection_gets_everything_once(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source)
    for number in range(1, 6):
        source.run(f"INSERT INTO t SELECT generate_series({number * 1000}, {number * 1000 + 499})")
        with connect_store() as store:
            store.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'replview receiver' AND datname = current_database()"
            )
    source.run("INSERT INTO t VALUES (1)")
    recording.caught_up()

    stored = recording.transactions(state="committed")
    assert [t.commit_seq for t in stored] == [1, 2, 3, 4, 5, 6]
    assert sum(len(recording.changes(t)) for t in stored) == 5 * 500 + 1


@pytest.mark.slow
def test_twenty_reconnections_leave_no_descriptor_and_no_thread(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source)

    def connected() -> int:
        return recording.slot.events.filter(kind="connected").count()

    def cut() -> bool:
        with source.connect() as session:
            ended = session.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
                "WHERE slot_name = %s AND active", [recording.slot.name]).fetchall()  # fmt: skip
        return ended == [(True,)]

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    def reconnect(times: int) -> None:
        for wanted in range(connected() + 1, connected() + 1 + times):
            # The receiver connects a moment before it reads the slot.
            wait_for(cut)
            wait_for(lambda wanted=wanted: connected() >= wanted)
            source.run("INSERT INTO t SELECT coalesce(max(n), 0) + 1 FROM t")
            recording.caught_up()

    reconnect(2)
    before = held()
    reconnect(20)

    wait_for(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))
    assert [t.commit_seq for t in recording.transactions()] == list(range(1, 23))


@BOTH_INTERFACES
@pytest.mark.slow
@pytest.mark.parametrize("mode", [pytest.param("fast", marks=pytest.mark.long), "immediate"])
def test_a_source_that_restarts_sends_nothing_twice_into_the_record(record, mode: str) -> None:
    with copied(16, SOURCE_SETTINGS) as server:
        server.create_database("restarts")
        source = SourceDatabase(server, "restarts")
        source.run(TABLE)
        recording = record(source)
        for number in range(3):
            source.run(f"INSERT INTO t SELECT generate_series({number * 100}, {number * 100 + 9})")
            recording.caught_up()
            server.stop(mode=mode)
            server.start()
            recording.dsn = source.dsn
        source.run("INSERT INTO t VALUES (-1)")
        recording.caught_up()

        stored = recording.transactions(state="committed")
        assert [t.commit_seq for t in stored] == [1, 2, 3, 4]
        assert [t.inserts for t in stored] == [10, 10, 10, 1]
        recording.end()


@BOTH_INTERFACES
@pytest.mark.pg(14)
def test_what_a_crash_left_half_received_is_hidden_and_received_anew(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE, "ALTER TABLE t ADD filler text")
    recording = record(source)
    with source.connect() as connection:
        connection.execute("BEGIN")
        connection.execute(
            "INSERT INTO t SELECT n, repeat('x', 200) FROM generate_series(1, 3000) n"
        )
        wait_for(lambda: recording.transactions(state="streaming"))
        recording.end()
        recording.start()
        recording.streaming()
        wait_for(lambda: recording.transactions(state="discarded"))
        connection.execute("COMMIT")
    recording.caught_up()

    [committed] = recording.transactions(state="committed")
    assert (committed.inserts, len(recording.changes(committed))) == (3000, 3000)
