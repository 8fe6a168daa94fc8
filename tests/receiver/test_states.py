"""Every state a transaction goes through is recorded, with where and when."""

import time

import pytest

from replview.access.visibility import reading_session
from replview.store.models import (
    AbortedSubtransaction,
    Change,
    Slot,
    SlotEvent,
    Transaction,
    Transition,
)
from replview.store.read.changes.of_transaction import changes_of
from replview.store.retention import tidy
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

#: Each takes its seconds; make test runs them all.
pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE t (n int PRIMARY KEY, v text)"
#: Beyond logical_decoding_work_mem, so that it is streamed.
BIG = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series({}, {}) i"


def incarnation_of(row: Transaction) -> list[str]:
    """The states it went through."""
    found = Transition.objects.filter(transaction_id=row.pk).order_by("id")
    return list(found.values_list("state", flat=True))


def one(recording: Recording, state: str) -> Transaction:
    """The one transaction in this state, once there is one."""
    found = wait_for(lambda: recording.transactions(state=state))
    [row] = found
    return row


def test_a_plain_transaction_has_no_transitions(any_source: SourceDatabase, record) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    any_source.run("INSERT INTO t VALUES (1)")
    recording.caught_up()

    assert not Transition.objects.exists()


@pytest.mark.pg(14)
def test_a_streamed_one_streams_then_commits(any_source: SourceDatabase, record) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    with any_source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 5000))
        row = one(recording, "streaming")
        assert incarnation_of(row) == ["streaming"]
        session.execute("COMMIT")
    recording.caught_up()

    row.refresh_from_db()
    assert incarnation_of(row) == ["streaming", "committed"]
    last = Transition.objects.filter(transaction_id=row.pk).latest("id")
    assert (last.lsn, last.source_time) == (row.commit_lsn, row.commit_time)
    assert last.recorded_at is not None


@pytest.mark.pg(15)
def test_a_prepared_one_is_told_with_its_end(any_source: SourceDatabase, record) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    any_source.run(
        "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'kept'",
        "BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'dropped'",
    )
    recording.caught_up()
    any_source.run("COMMIT PREPARED 'kept'", "ROLLBACK PREPARED 'dropped'")
    recording.caught_up()

    kept, dropped = one(recording, "committed"), one(recording, "rolled back")
    assert incarnation_of(kept) == ["prepared", "committed"]
    assert incarnation_of(dropped) == ["prepared", "rolled back"]
    times = Transition.objects.filter(transaction_id=kept.pk).order_by("id")
    assert [told.source_time for told in times] == [kept.prepared_at, kept.commit_time]
    assert all(told.lsn for told in times)


@pytest.mark.pg(15)
def test_prepared_and_ended_in_one_batch_is_told_as_both(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    recording = record(any_source, start=False)
    any_source.run(
        "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'", "ROLLBACK PREPARED 'p'"
    )
    recording.start()
    recording.streaming()
    recording.caught_up()

    assert incarnation_of(one(recording, "rolled back")) == ["prepared", "rolled back"]


@pytest.mark.pg(15)
def test_what_came_to_nothing_is_swept_away_after_a_while(
    source: SourceDatabase, record, monkeypatch
) -> None:
    source.run(TABLE)
    recording = record(source)
    source.run("BEGIN; INSERT INTO t VALUES (0); PREPARE TRANSACTION 'p'")
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 5000))
        one(recording, "streaming")
        session.execute("ROLLBACK")
    source.run("ROLLBACK PREPARED 'p'")
    aborted, rolled_back = one(recording, "aborted"), one(recording, "rolled back")
    recording.caught_up()

    tidy.sweep_tombstones(time.monotonic() + 60)
    assert Change.objects.filter(transaction_id=aborted.pk).exists()

    monkeypatch.setattr(tidy, "LOOKED_AT_SECONDS", 0)
    tidy.sweep_tombstones(time.monotonic() + 60)
    assert not Change.objects.filter(transaction_id__in=[aborted.pk, rolled_back.pk]).exists()
    # The transaction's state and counts remain.
    aborted.refresh_from_db()
    assert (aborted.state, aborted.aborted_changes) == ("aborted", 0)
    assert aborted.inserts > 0
    assert incarnation_of(aborted) == ["streaming", "aborted"]


@pytest.mark.pg(14)
def test_a_slot_that_keeps_them_keeps_them_and_stands_in_nobodys_way(
    source: SourceDatabase, record, monkeypatch
) -> None:
    monkeypatch.setattr(tidy, "LOOKED_AT_SECONDS", 0)
    monkeypatch.setattr(tidy, "TOGETHER", 1)
    source.run(TABLE)
    keeping, other = record(source, keep_aborted=True), record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 3000))
        one(keeping, "streaming")
        one(other, "streaming")
        session.execute("ROLLBACK")
    kept, swept = one(keeping, "aborted"), one(other, "aborted")
    keeping.caught_up()
    other.caught_up()

    tidy.sweep_tombstones(time.monotonic() + 60)

    assert Change.objects.filter(transaction_id=kept.pk).exists()
    assert not Change.objects.filter(transaction_id=swept.pk).exists()


@pytest.mark.pg(14)
def test_kept_changes_of_an_aborted_subtransaction_are_marked(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source, keep_aborted=True)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 3000))
        session.execute("SAVEPOINT a")
        session.execute(BIG.format(3001, 6000))
        one(recording, "streaming")
        session.execute("ROLLBACK TO a")
        session.execute("COMMIT")
    recording.caught_up()
    tidy.sweep_tombstones(time.monotonic() + 60)
    row = one(recording, "committed")

    counting = changes_of(reading_session(), row.pk, 0, 10_000)
    whole = changes_of(reading_session(), row.pk, 0, 10_000, with_aborted=True)

    assert [change.new["n"] for change in counting] == [str(n) for n in range(1, 3001)]
    undone = [change for change in whole if change.aborted]
    assert len(undone) == row.aborted_changes > 0
    assert all(int(change.new["n"]) > 3000 for change in undone)


@pytest.mark.pg(14)
def test_an_aborted_subtransaction_takes_exactly_its_own_changes(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    with any_source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 2000))
        session.execute("SAVEPOINT a")
        session.execute(BIG.format(2001, 4000))
        session.execute("SAVEPOINT b")
        session.execute(BIG.format(4001, 5000))
        one(recording, "streaming")
        session.execute("ROLLBACK TO a")
        session.execute(BIG.format(5001, 6000))
        session.execute("COMMIT")
    recording.caught_up()
    row = one(recording, "committed")
    tidy.sweep_tombstones(time.monotonic() + 60)

    numbers = sorted(int(change.new["n"]) for change in recording.changes(row))
    assert numbers == [*range(1, 2001), *range(5001, 6001)]
    stones = AbortedSubtransaction.objects.filter(transaction_id=row.pk)
    assert all(stone.swept for stone in stones)
    assert sum(stone.changes or 0 for stone in stones) == row.aborted_changes


@pytest.mark.pg(14)
def test_half_received_it_is_discarded_said_and_first_seen_when_it_was(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    with any_source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 5000))
        first = one(recording, "streaming")
        recording.end()
        recording.start()
        recording.streaming()
        again = one(recording, "streaming")
        assert again.pk != first.pk
        assert again.received_at == first.received_at
        session.execute("COMMIT")
    recording.caught_up()

    [event] = SlotEvent.objects.filter(kind="discarded")
    assert event.detail["xids"] == [first.xid]
    row = one(recording, "committed")
    assert len(recording.changes(row)) == 5000
    tidy.sweep_discarded(time.monotonic() + 60)
    assert not Transition.objects.filter(transaction_id=first.pk).exists()


@pytest.mark.pg(15)
def test_a_gid_used_again_names_the_transaction_that_had_it_before(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source)
    source.run(
        "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'again'", "COMMIT PREPARED 'again'"
    )
    recording.caught_up()
    source.run("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'again'")
    recording.caught_up()

    assert one(recording, "prepared").context == {"$gid_before": one(recording, "committed").pk}


@pytest.mark.pg(15)
def test_a_prepared_one_of_an_incarnation_that_ended_is_not_prepared_for_ever(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source)
    source.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
    recording.caught_up()
    recording.end()
    # Pretend that the source is another cluster now.
    Slot.objects.get().incarnation.__class__.objects.update(system_identifier="other")
    recording.start()
    recording.streaming()

    [row] = recording.transactions(gid="p")
    assert row.state == "unknown"
    assert incarnation_of(row) == ["prepared", "unknown"]


@pytest.mark.pg(15)
def test_a_prepared_one_ends_in_the_next_incarnation_of_the_same_cluster(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source)
    source.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
    recording.caught_up()
    recording.end()
    with source.connect() as session:
        # Somebody else moves the slot on.
        session.execute("INSERT INTO t VALUES (2)")
        session.execute(
            "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [recording.slot.name]
        )
    recording.start()
    recording.streaming()
    source.run("COMMIT PREPARED 'p'", "INSERT INTO t VALUES (3)")
    recording.caught_up()

    rows = recording.transactions(state="committed")
    assert [(row.incarnation.number, row.commit_seq, row.gid) for row in rows] == [
        (2, 1, "p"),
        (2, 2, None),
    ]
    assert [c.new["n"] for c in recording.changes(rows[0])] == ["1"]
    assert SlotEvent.objects.filter(kind="gap").count() == 1
