"""Whatever keeps a slot from being received is a named state with cause and remedy."""

import json

import psycopg
import pytest

from decoder.reader import ProtocolError
from decoder.scalars import LSN
from replview.receiver.problems import name_trouble, pause_seconds
from replview.runtime.logs import JSONFormatter
from tests.receiver.conftest import BOTH_INTERFACES, unused
from tests.support.copied_clusters import copied
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

TABLE = "CREATE TABLE t (n int PRIMARY KEY)"


@BOTH_INTERFACES
def test_a_slot_in_use_is_named_and_taken_when_it_is_free(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    other = psycopg.connect(source.dsn, replication="database", autocommit=True)
    other.pgconn.exec_(
        f"START_REPLICATION SLOT {recording.slot.name} LOGICAL 0/0 (proto_version '1', "
        f"publication_names '{recording.slot.name}')".encode()
    )

    recording.start()
    slot = recording.problem("slot_in_use")
    assert slot.state == "reconnecting"
    assert slot.incarnation is None, "no incarnation begins while somebody else moves the slot"
    assert "pg_terminate_backend" in slot.problem_remedy
    other.close()

    recording.streaming()
    recording.slot.refresh_from_db()
    assert recording.slot.problem_code == ""


@BOTH_INTERFACES
def test_a_wrong_password_is_named_without_being_repeated(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    recording.dsn = source.server.dsn(source.name, password="not-the-password")

    recording.start()

    slot = recording.problem("wrong_password")
    assert "not-the-password" not in slot.problem_cause + slot.problem_remedy


@BOTH_INTERFACES
def test_an_unreachable_host_is_named(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    recording.dsn = "host=127.0.0.1 port=1 dbname=x user=y"

    recording.start()

    assert "127.0.0.1" in recording.problem("unreachable").problem_cause


@BOTH_INTERFACES
def test_a_role_without_replication_is_named(source: SourceDatabase, record) -> None:
    source.run(TABLE, "CREATE ROLE reader LOGIN PASSWORD 'reader'")
    recording = record(source, start=False)
    recording.dsn = source.server.dsn(source.name, user="reader", password="reader")

    recording.start()

    assert "REPLICATION" in recording.problem("no_replication_privilege").problem_remedy
    recording.end()
    source.run("DROP ROLE reader")


@BOTH_INTERFACES
def test_a_slot_that_is_gone_is_named(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    with source.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [recording.slot.name])

    recording.start()

    assert recording.problem("slot_missing").state == "failed"


@BOTH_INTERFACES
def test_a_missing_publication_is_named_on_16(source_cluster_16, record) -> None:
    source = SourceDatabase(source_cluster_16, unused("without_publication"))
    source_cluster_16.create_database(source.name)
    source.run(TABLE)
    recording = record(source, start=False)
    source.run(f"DROP PUBLICATION {recording.slot.name}", "INSERT INTO t VALUES (1)")

    recording.start()

    assert recording.problem("publication_missing").state == "failed"
    recording.end()
    source.run(f"SELECT pg_drop_replication_slot('{recording.slot.name}')")


def test_a_terminated_walsender_is_only_an_interruption(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)
    source.run("INSERT INTO t VALUES (1)")
    recording.caught_up()
    with source.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
            "WHERE slot_name = %s",
            [recording.slot.name],
        )

    wait_for(lambda: recording.slot.events.filter(kind="disconnected").exists())
    source.run("INSERT INTO t VALUES (2)")
    recording.caught_up()

    assert [t.commit_seq for t in recording.transactions()] == [1, 2]


@BOTH_INTERFACES
def test_what_ended_a_stream_is_named_though_data_came_just_before(
    source_cluster_16, record
) -> None:
    source = SourceDatabase(source_cluster_16, unused("ends_behind_data"))
    source_cluster_16.create_database(source.name)
    source.run(TABLE)
    recording = record(source, start=False)
    source.run(
        "INSERT INTO t VALUES (1)",
        f"DROP PUBLICATION {recording.slot.name}",
        "INSERT INTO t VALUES (2)",
    )
    with source.connect() as session:
        [before] = session.execute("SELECT pg_current_wal_lsn()::text").fetchone()

    recording.start()

    slot = recording.problem("publication_missing")
    recording.end()
    assert {e.detail["code"] for e in slot.events.filter(kind__in=["disconnected", "problem"])} == {
        "publication_missing"
    }, before
    source.run(f"SELECT pg_drop_replication_slot('{recording.slot.name}')")


@BOTH_INTERFACES
@pytest.mark.pg(15)
def test_a_value_that_ends_the_stream_is_in_no_message(
    source: SourceDatabase, record, caplog
) -> None:
    """A row filter that fails on a value: the server's own error quotes it."""
    source.run("CREATE TABLE t (y int, m int, d int)")
    only_dates = "TABLE t WHERE (make_date(y, m, d) > '2000-01-01') WITH (publish = 'insert')"
    recording = record(source, publish=only_dates)
    source.run("INSERT INTO t VALUES (4711, 0, 815)")

    slot = recording.problem("stream_failed")

    recording.end()
    told = [slot.problem_cause, slot.problem_remedy, *slot.events.values_list("message", flat=True)]
    assert "4711" not in " ".join(told)
    lines = [JSONFormatter().format(entry) for entry in caplog.records]
    assert "4711" not in "".join(lines) + caplog.text
    [last] = [json.loads(line) for line in lines if "could not send the stream" in line][-1:]
    assert last["slot"] == slot.name
    # The server's own WAL moves the checkpoint on meanwhile.
    assert 0 < LSN.parse(last["lsn"]) <= slot.checkpoint_lsn


@BOTH_INTERFACES
def test_a_server_restored_from_an_older_copy_begins_a_new_record(
    source: SourceDatabase, record
) -> None:
    """The server would skip, without a word, all up to the position that we had reached."""
    source.run(TABLE)
    recording = record(source)
    source.run("INSERT INTO t VALUES (1)")
    recording.caught_up()
    recording.end()
    type(recording.slot).objects.filter(pk=recording.slot.pk).update(checkpoint_lsn="FFFF/0")

    recording.start()
    recording.streaming()
    source.run("INSERT INTO t VALUES (2)")

    [first, second] = wait_for(
        lambda: len(found := recording.transactions(state="committed")) == 2 and found
    )
    assert {first.incarnation.number, second.incarnation.number} == {1, 2}
    assert recording.slot.events.filter(kind="gap").count() == 1


@BOTH_INTERFACES
@pytest.mark.slow
def test_wal_level_and_a_lost_slot_are_named(record) -> None:
    settings = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    with copied(settings=settings) as server:
        server.create_database("loses")
        source = SourceDatabase(server, "loses")
        source.run(TABLE)
        recording = record(source, start=False)
        source.run(
            *["SELECT pg_switch_wal()", "INSERT INTO t VALUES (1)", "DELETE FROM t"] * 4,
            "CHECKPOINT",
        )
        recording.start()
        slot = recording.problem("slot_lost")
        assert "pg_drop_replication_slot" in slot.problem_remedy
        recording.end()

        source.run(f"SELECT pg_drop_replication_slot('{slot.name}')")
        server.stop()
        server.settings["wal_level"] = "replica"
        server.start()
        recording.start()
        assert "ALTER SYSTEM" in recording.problem("wal_level").problem_remedy
        recording.end()


def test_pauses_grow_and_never_vanish() -> None:
    for code in ("unreachable", "cut_off", "slot_lost", "anything new"):
        pauses = [pause_seconds(code, attempt) for attempt in range(1, 12)]
        assert pauses == sorted(pauses)
        assert pauses[0] >= 0.2
        assert pauses[-1] <= 30


def test_an_unexpected_failure_names_no_value() -> None:
    for error in (ProtocolError("Insert", 4, "a column"), ValueError("secret cell")):
        trouble = name_trouble(error, conninfo="", slot="s", publications=[])
        assert "secret cell" not in str(trouble)
