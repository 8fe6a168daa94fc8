"""A receiver stores the source's commits whole, in order and once."""

import pytest

from replview.store.read.days import IDS_PER_HOUR
from tests.receiver.conftest import BOTH_INTERFACES
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

SHOP = """
CREATE TABLE orders (id int PRIMARY KEY, status text, note text);
CREATE TABLE audit (line text);
"""


@BOTH_INTERFACES
def test_a_commit_is_stored_with_its_changes_in_order(any_source: SourceDatabase, record) -> None:
    any_source.run(SHOP)
    recording = record(any_source)

    any_source.run(
        "BEGIN; INSERT INTO orders VALUES (1, 'new', NULL); "
        "UPDATE orders SET status = 'paid' WHERE id = 1; DELETE FROM orders; COMMIT"
    )
    recording.caught_up()

    [transaction] = recording.transactions()
    assert transaction.state == "committed"
    assert transaction.commit_seq == 1
    assert (transaction.inserts, transaction.updates, transaction.deletes) == (1, 1, 1)
    assert transaction.commit_time is not None
    changes = recording.changes(transaction)
    assert [change.op for change in changes] == ["I", "U", "D"]
    assert changes[0].new == {"id": "1", "status": "new", "note": None}
    assert changes[1].new == {"id": "1", "status": "paid", "note": None}
    assert (changes[2].old_kind, changes[2].old) == ("K", {"id": "1"})
    assert len({change.key_hash for change in changes}) == 1


def test_bytes_are_counted_and_a_receiver_tells_of_its_batches(
    source: SourceDatabase, record
) -> None:
    source.run(SHOP)
    recording = record(source)
    for number in range(3):
        source.run(f"INSERT INTO orders VALUES ({number}, 'new')")
    recording.caught_up()

    def told() -> dict:
        recording.slot.refresh_from_db()
        return recording.slot.receiver_facts

    wait_for(lambda: "batch_changes" in told())
    assert recording.slot.bytes_stored == sum(t.size_bytes for t in recording.transactions()) > 0
    facts = told()
    assert 1 <= facts["batch_changes"] <= 3
    assert facts["batch_bytes"] > 0
    assert facts["batch_seconds"] > 0
    assert facts["memory_bytes"] > 1 << 20


@BOTH_INTERFACES
def test_a_second_receiver_resumes_where_the_first_ended(source: SourceDatabase, record) -> None:
    source.run(SHOP)
    recording = record(source)
    source.run("INSERT INTO orders VALUES (1)")
    recording.caught_up()
    recording.end()
    source.run("INSERT INTO orders VALUES (2)")

    recording.start("another")
    recording.caught_up()

    assert [t.commit_seq for t in recording.transactions()] == [1, 2]


@pytest.mark.parametrize("hours", [0, 2, 72])
def test_a_clock_that_was_set_back_is_noted(source: SourceDatabase, record, hours: int) -> None:
    source.run(SHOP)
    recording = record(source)
    source.run("INSERT INTO orders VALUES (1)")
    recording.caught_up()
    incarnation = recording.slot.incarnations.get()
    first_id = recording.transactions()[0].pk
    assert (incarnation.last_hour, incarnation.hours_in_order) == (first_id // IDS_PER_HOUR, True)
    incarnation.last_hour += hours
    incarnation.save(update_fields=["last_hour"])
    source.run("INSERT INTO orders VALUES (2)")
    recording.caught_up()
    incarnation.refresh_from_db()
    assert incarnation.hours_in_order == (hours == 0)
    assert incarnation.last_hour >= first_id // IDS_PER_HOUR + hours


@BOTH_INTERFACES
@pytest.mark.pg(14)
def test_a_streamed_transaction_is_seen_before_it_ends(source: SourceDatabase, record) -> None:
    source.run(SHOP)
    recording = record(source)
    with source.connect() as connection:
        connection.execute("BEGIN")
        connection.execute(
            "INSERT INTO orders SELECT n, repeat('x', 100), 'n' FROM generate_series(1, 5000) n"
        )
        [streaming] = wait_for(lambda: recording.transactions(state="streaming"))
        assert streaming.inserts > 0
        connection.execute("SAVEPOINT s")
        connection.execute("UPDATE orders SET status = 'gone'")
        connection.execute("ROLLBACK TO s")
        connection.execute("COMMIT")
    recording.caught_up()

    [transaction] = recording.transactions()
    assert transaction.state == "committed"
    assert transaction.inserts == 5000
    assert transaction.updates == 0


@BOTH_INTERFACES
@pytest.mark.pg(14)
def test_a_streamed_transaction_that_aborts_says_so(source: SourceDatabase, record) -> None:
    source.run(SHOP)
    recording = record(source)
    with source.connect() as connection:
        connection.execute("BEGIN")
        connection.execute(
            "INSERT INTO orders SELECT n, repeat('x', 100), 'n' FROM generate_series(1, 5000) n"
        )
        wait_for(lambda: recording.transactions(state="streaming"))
        connection.execute("ROLLBACK")

    [transaction] = wait_for(lambda: recording.transactions(state="aborted"))
    assert transaction.commit_seq is None


@BOTH_INTERFACES
@pytest.mark.pg(15)
@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
def test_a_prepared_transaction_waits_and_ends(source: SourceDatabase, record, ending) -> None:
    source.run(SHOP)
    recording = record(source)
    source.run("BEGIN; INSERT INTO orders VALUES (7); PREPARE TRANSACTION 'till-1'")
    [prepared] = wait_for(lambda: recording.transactions(state="prepared"))
    assert (prepared.gid, prepared.inserts, prepared.commit_seq) == ("till-1", 1, None)
    recording.end()

    source.run(f"{ending} PREPARED 'till-1'")
    recording.start()
    recording.caught_up()

    [ended] = recording.transactions()
    assert ended.state == ("committed" if ending == "COMMIT" else "rolled back")
    assert ended.pk == prepared.pk
    assert len(recording.changes(ended)) == 1


@BOTH_INTERFACES
@pytest.mark.pg(14)
def test_a_message_names_the_actor(source: SourceDatabase, record) -> None:
    source.run(SHOP)
    recording = record(source)

    source.run(
        """BEGIN; SELECT pg_logical_emit_message(true, 'replview',
           '{"actor": "alice", "request_id": "r1"}'); INSERT INTO orders VALUES (1); COMMIT""",
        "SELECT pg_logical_emit_message(false, 'ping', 'pong')",
    )
    # Nothing flushes the WAL for a non-transactional message: it comes a moment later.
    wait_for(lambda: len(recording.transactions()) == 2)

    with_actor, alone = recording.transactions()
    assert (with_actor.actor, with_actor.actor_grade) == ("alice", "claimed")
    assert with_actor.context == {"request_id": "r1"}
    assert (alone.state, alone.messages, alone.xid) == ("message", 1, None)
    [message] = recording.changes(alone)
    assert message.new == {"prefix": "ping", "content": "pong", "transactional": False}


@BOTH_INTERFACES
def test_an_idle_slot_holds_no_wal(source: SourceDatabase, record) -> None:
    source.run(SHOP, "CREATE TABLE unpublished_elsewhere (n int)")
    recording = record(source)

    with source.connect() as connection:
        connection.execute("SELECT pg_switch_wal()")
    recording.caught_up()

    def confirmed() -> bool:
        with source.connect() as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots "
                "WHERE slot_name = %s",
                [str(recording.slot.checkpoint_lsn), recording.slot.name],
            ).fetchone()
        return row[0]

    wait_for(confirmed)


def test_an_idle_publication_holds_no_wal_beside_heavy_traffic_elsewhere(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(SHOP, "CREATE TABLE busy (n int, filler text)")
    recording = record(any_source, publish="TABLE orders")

    def distance() -> int:
        with any_source.connect() as connection:
            row = connection.execute(
                "SELECT pg_current_wal_lsn() - confirmed_flush_lsn FROM pg_replication_slots "
                "WHERE slot_name = %s",
                [recording.slot.name],
            ).fetchone()
        return int(row[0])

    wait_for(lambda: distance() < 1 << 20)
    # Eight megabytes of which nothing is published, none so large that it is streamed: the server
    # sends nothing but keepalives.
    any_source.run(
        "DO $$ BEGIN FOR i IN 1..300 LOOP "
        "INSERT INTO busy SELECT n, repeat('x', 900) FROM generate_series(1, 30) n; "
        "COMMIT; END LOOP; END $$"
    )
    wait_for(lambda: distance() < 1 << 20)
    assert recording.transactions() == []
