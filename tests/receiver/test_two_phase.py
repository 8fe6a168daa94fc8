"""Prepared transactions: across sessions, in one batch, prepared before the slot was ready."""

import threading

import psycopg
import pytest

from replview.store.connecting import orm_connection
from tests.receiver.conftest import BOTH_INTERFACES
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE t (n int PRIMARY KEY, filler text)"


def _waits_for_a_transaction(source: SourceDatabase, number: int) -> bool:
    """Return True if the creation of a slot waits for transaction ``number`` to end."""
    with source.connect() as connection:
        return bool(
            connection.execute(
                "SELECT FROM pg_locks w JOIN pg_stat_activity a USING (pid) "
                "WHERE w.locktype = 'transactionid' AND NOT w.granted "
                "AND a.query LIKE 'SELECT pg_create_logical%%' AND w.transactionid = %s::text::xid",
                [str(number)],
            ).fetchall()
        )


def _begin(session: psycopg.Connection, number: int) -> int:
    """Open a transaction that writes; returns its id."""
    session.execute("BEGIN")
    session.execute("INSERT INTO t VALUES (%s)", [number])
    [xid] = session.execute("SELECT txid_current()::text").fetchone()
    return int(xid)


@BOTH_INTERFACES
@pytest.mark.pg(15)
def test_a_transaction_prepared_before_the_slot_was_ready_comes_whole_with_its_commit(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    made: list[Recording] = []

    def create() -> None:
        with orm_connection():
            made.append(record(any_source, start=False))

    creating = threading.Thread(target=create)
    with any_source.connect() as first, any_source.connect() as second:
        awaited = _begin(first, 1)
        creating.start()
        wait_for(lambda: _waits_for_a_transaction(any_source, awaited))
        awaited_next = _begin(second, 2)
        first.execute("COMMIT")
        wait_for(lambda: _waits_for_a_transaction(any_source, awaited_next))
        # The slot follows transactions by now, but cannot send this one: it is not consistent.
        any_source.run("BEGIN; INSERT INTO t VALUES (3); PREPARE TRANSACTION 'early'")
        second.execute("COMMIT")
    creating.join()
    [recording] = made
    recording.start()
    recording.streaming()

    any_source.run("COMMIT PREPARED 'early'", "INSERT INTO t VALUES (4)")
    recording.caught_up()

    early, later = recording.transactions()
    assert (early.gid, early.state, early.commit_seq, early.inserts) == ("early", "committed", 1, 1)
    assert [change.new["n"] for change in recording.changes(early)] == ["3"]
    assert later.commit_seq == 2


@BOTH_INTERFACES
@pytest.mark.pg(15)
def test_a_gid_used_again_in_one_batch_names_two_transactions(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    recording = record(any_source, start=False)
    for number in (1, 2, 3):
        ending = "ROLLBACK" if number == 2 else "COMMIT"
        any_source.run(
            f"BEGIN; INSERT INTO t VALUES ({number}); PREPARE TRANSACTION 'again'",
            f"{ending} PREPARED 'again'",
        )
    any_source.run("BEGIN; PREPARE TRANSACTION 'empty'", "COMMIT PREPARED 'empty'")
    recording.start()
    recording.caught_up()

    stored = recording.transactions(gid="again")
    assert [t.state for t in stored] == ["committed", "committed", "rolled back"]
    assert [t.commit_seq for t in stored[:2]] == [1, 2]
    assert [recording.changes(t)[0].new["n"] for t in stored] == ["1", "3", "2"]


@BOTH_INTERFACES
@pytest.mark.pg(15)
def test_a_streamed_transaction_that_is_prepared_ends_in_a_later_session(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    any_source.run(
        "BEGIN; INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 3000) n; "
        "SAVEPOINT s; INSERT INTO t SELECT n, repeat('x', 100) "
        "FROM generate_series(3001, 4000) n; ROLLBACK TO s; PREPARE TRANSACTION 'large'"
    )
    [prepared] = wait_for(lambda: recording.transactions(state="prepared"))
    recording.end()
    any_source.run("COMMIT PREPARED 'large'")
    recording.start()
    recording.caught_up()

    [committed] = recording.transactions()
    assert (committed.pk, committed.commit_seq, committed.state) == (prepared.pk, 1, "committed")
    assert committed.inserts == 3000


@pytest.mark.pg(15)
@pytest.mark.parametrize("end", ["COMMIT PREPARED", "ROLLBACK PREPARED"])
def test_a_prepared_transaction_that_only_locked_a_row_stops_no_slot(
    any_source: SourceDatabase, record, end: str
) -> None:
    """PostgreSQL 18 sends its Prepare without a BeginPrepare before it."""
    any_source.run(TABLE, "INSERT INTO t VALUES (0)")
    recording = record(any_source)
    any_source.run("BEGIN; SELECT FROM t FOR UPDATE; PREPARE TRANSACTION 'locks'", f"{end} 'locks'",
                   "INSERT INTO t VALUES (2)")  # fmt: skip
    recording.caught_up()

    [after] = recording.transactions(state="committed", inserts=1)
    assert [change.new["n"] for change in recording.changes(after)] == ["2"]
    assert not recording.slot.quarantined.exists()
    assert not recording.transactions(state="prepared")
