"""A look into a slot tells what waits in it, and leaves it as it was."""

import json
import time
from dataclasses import replace

import psycopg
import pytest

from decoder.scalars import LSN
from replview.catalog.problems import SourceProblem
from replview.receiver import peek as peeking
from replview.receiver.peek import peek
from replview.receiver.peek_findings import VALUE_CHARACTERS
from replview.receiver.sessions import slot_functions as functions
from tests.receiver import claims
from tests.support.pooler import pooler
from tests.support.source_databases import SourceDatabase

#: Each takes its seconds; make test runs them all.
pytestmark = pytest.mark.slow

TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, status text, note text)",
    "CREATE TABLE audit (line text)",
    "CREATE PUBLICATION looked FOR ALL TABLES",
)
PLUGINS = ["pgoutput", "test_decoding", "wal2json"]


def _make(source: SourceDatabase, *, plugin: str = "pgoutput", two_phase: bool = False) -> str:
    name = f"{source.name}_slot"
    try:
        source.create_slot(name, plugin, two_phase=two_phase)
    except psycopg.errors.UndefinedFile:
        pytest.skip(f"{plugin} is not installed for this PostgreSQL")
    return name


def _look(source: SourceDatabase, slot: str, **changed) -> dict:
    wanted = {
        "plugin": "pgoutput",
        "options": {"publications": ["looked"]},
        "max_changes": 1000,
        "max_seconds": 20.0,
        **changed,
    }
    before = _row(source, slot)
    found = peek(source.dsn, slot, **wanted)
    assert _row(source, slot) == before
    json.dumps(found)
    return found


def _row(source: SourceDatabase, slot: str) -> tuple:
    with source.connect() as session:
        return session.execute(
            "SELECT confirmed_flush_lsn, restart_lsn, to_jsonb(s)->>'two_phase', active, plugin "
            "FROM pg_replication_slots AS s WHERE slot_name = %s",
            [slot],
        ).fetchone()


@pytest.mark.parametrize("two_phase", [False, True])
def test_everything_that_waits_is_told_and_the_slot_stays(
    any_source: SourceDatabase, two_phase: bool
) -> None:
    any_source.run(*TABLES)
    slot = _make(any_source, two_phase=two_phase)
    any_source.run(
        "BEGIN; INSERT INTO orders VALUES (1, 'new', NULL), (2, 'new', repeat('x', 2000)); "
        "INSERT INTO audit VALUES ('two'); UPDATE orders SET status = 'paid' WHERE id = 1; COMMIT",
        "BEGIN; DELETE FROM orders WHERE id = 2; PREPARE TRANSACTION 'waits'",
        "SELECT pg_logical_emit_message(true, 'note', 'content')",
    )

    found = _look(any_source, slot)

    assert (found["complete"], found["stopped_by"]) == (True, None)
    # pgoutput sends messages from 14 on, and prepared transactions from 15 on.
    messages, prepared = int(any_source.version >= 14), int(two_phase and any_source.version >= 15)
    assert (found["transactions"], found["prepared"]) == (1 + messages, prepared)
    assert found["changes"] == 4 + messages + prepared
    orders = {"table": "public.orders", "inserts": 2, "updates": 1, "truncates": 0}
    assert found["tables"] == [
        {"table": "public.audit", "inserts": 1, "updates": 0, "deletes": 0, "truncates": 0},
        {**orders, "deletes": prepared},
    ]
    first = found["listed"][0]
    assert (first["state"], first["changes"]) == ("committed", 4)
    assert first["tables"] == ["public.audit", "public.orders"]
    assert found["oldest_commit"] == first["commit_time"]
    insert, long = found["first_changes"][:2]
    assert (insert["op"], insert["new"]) == ("insert", {"id": "1", "status": "new", "note": None})
    assert insert["key"] == {"id": "1"}
    assert len(long["new"]["note"]) < VALUE_CHARACTERS + 50
    assert long["new"]["note"].endswith("(2,000 characters)")
    waiting = [row["gid"] for row in found["listed"] if row["state"] == "prepared"]
    assert waiting == ["waits"] * prepared


def test_one_huge_transaction_is_read_no_further_than_asked(source: SourceDatabase) -> None:
    source.run(*TABLES)
    slot = _make(source)
    source.run("INSERT INTO orders SELECT n, 'x', 'y' FROM generate_series(1, 100000) n")

    found = _look(source, slot, max_changes=100)

    assert (found["complete"], found["stopped_by"], found["changes"]) == (False, "changes", 100)
    assert len(found["first_changes"]) == 50
    assert found["listed"][0]["changes"] == 100


@pytest.mark.pg(14)
def test_an_aborted_subtransaction_does_not_wait(source: SourceDatabase) -> None:
    source.run(*TABLES)
    slot = _make(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 2000) n")
        session.execute("SAVEPOINT s")
        session.execute("INSERT INTO audit SELECT repeat('y', 100) FROM generate_series(1, 2000)")
        source.run("INSERT INTO orders VALUES (-1)")
        open_one = _look(source, slot, max_changes=100_000)
        session.execute("ROLLBACK TO s")
        session.execute("COMMIT")

    found = _look(source, slot, max_changes=100_000)

    assert open_one["open_transactions"] == 1
    assert {row["state"] for row in open_one["listed"]} == {"streaming", "committed"}
    assert (found["changes"], found["transactions"]) == (2001, 2)
    assert sum(table["inserts"] for table in found["tables"]) == 2001


@pytest.mark.pg(16)
@pytest.mark.parametrize("streamed", [False, True])
def test_each_change_is_of_the_last_claim_before_it(source: SourceDatabase, streamed: bool) -> None:
    """Each peeked change names the actor of the last claim before it, as in the record."""
    source.run(claims.ROWS, "CREATE PUBLICATION looked FOR ALL TABLES",
               *([claims.STREAMED] if streamed else ()))  # fmt: skip
    slot = _make(source)
    source.run(claims.claim("zoe").replace("true", "false"))
    with source.connect() as session:
        for statements, _ in claims.TRANSACTIONS.values():
            for statement in ("BEGIN", *statements, "COMMIT"):
                session.execute(statement)

    found = _look(source, slot)

    alone, *rows = [c for c in found["first_changes"] if c["op"] != "message" or not c["xid"]]
    assert [row["actor"] for row in rows] == [row["new"]["who"] for row in rows]
    assert (alone["actor"], alone["actor_grade"]) == ("zoe", "claimed")
    for listed, (case, (_, named)) in zip(
        found["listed"], claims.TRANSACTIONS.items(), strict=True
    ):
        assert {part["actor"] for part in listed["actors"]} == {*named}, case


def test_a_look_ends_when_its_time_is_over(source: SourceDatabase, monkeypatch) -> None:
    monkeypatch.setattr(peeking, "FIRST_BYTES", 1_000_000)
    source.run(*TABLES)
    slot = _make(source)
    source.run("INSERT INTO orders VALUES (-1)")
    for first in range(0, 200_000, 50_000):
        source.run(
            f"INSERT INTO orders SELECT n, 'x' FROM generate_series({first}, {first + 49_999}) n"
        )

    started = time.monotonic()
    found = _look(source, slot, max_changes=10_000_000, max_seconds=0.5)

    assert time.monotonic() - started < 20
    assert (found["complete"], found["stopped_by"]) == (False, "seconds")
    with source.connect() as session:
        [ours] = session.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchone()
    assert ours == 0, "no backend goes on decoding"


def test_what_cannot_be_looked_into_is_named(source: SourceDatabase) -> None:
    source.run(*TABLES, "CREATE ROLE looker LOGIN PASSWORD 'looker'")
    slot = _make(source)

    def code(**changed) -> str:
        with pytest.raises(SourceProblem) as raised:
            _look(source, changed.pop("slot", slot), **changed)
        return raised.value.code

    assert code(slot="nowhere") == "slot_missing"
    assert code(plugin="decoderbufs") == "plugin_unsupported"
    assert code(plugin="wal2json") == "plugin_unsupported"
    assert code(options={"publications": ["looked", "gone"]}) == "publication_missing"
    assert code(options={}) == "publication_missing"
    reading = psycopg.connect(source.dsn, replication="database", autocommit=True)
    reading.pgconn.exec_(
        f"START_REPLICATION SLOT {slot} LOGICAL 0/0 "
        "(proto_version '1', publication_names 'looked')".encode()
    )
    assert code() == "slot_in_use"
    reading.close()
    dsn = source.server.dsn(source.name, user="looker", password="looker")
    with pytest.raises(SourceProblem) as raised:
        peek(dsn, slot, plugin="pgoutput", options={"publications": ["looked"]},
             max_changes=1, max_seconds=5.0)  # fmt: skip
    assert raised.value.code == "no_replication_privilege"
    source.run("DROP ROLE looker")


def test_a_look_goes_through_a_pooler(source: SourceDatabase) -> None:
    source.run(*TABLES)
    slot = _make(source)
    source.run("INSERT INTO orders VALUES (1)")
    with pooler(source) as dsn:
        found = peek(dsn, slot, plugin="pgoutput", options={"publications": ["looked"]},
                     max_changes=10, max_seconds=10.0)  # fmt: skip
    assert found["changes"] == 1


@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_plugin_tells_the_same(source_15: SourceDatabase, plugin: str) -> None:
    source = source_15
    source.run(*TABLES)
    slot = _make(source, plugin=plugin)
    source.run(
        "BEGIN; INSERT INTO orders VALUES (1, 'new', 'é'); DELETE FROM orders; COMMIT",
        "INSERT INTO audit VALUES ('line')",
    )
    options = {"publications": ["looked"]} if plugin == "pgoutput" else {}

    found = _look(source, slot, plugin=plugin, options=options)

    assert (found["transactions"], found["changes"], found["complete"]) == (2, 3, True)
    insert, delete, _ = found["first_changes"]
    assert insert["new"] == {"id": "1", "status": "new", "note": "é"}
    assert (delete["op"], delete["old"]) == ("delete", {"id": "1"})
    assert bool(found["unknown"]) == (plugin != "pgoutput")


@pytest.mark.parametrize(("looks", "complete"), [(1, True), (1000, False)])
def test_where_the_wal_ends_with_a_page_more_is_waited_for(
    source: SourceDatabase, monkeypatch, looks: int, complete: bool
) -> None:
    """A record may go on there: it is flushed in a moment, or left out and said to be."""
    source.run(*TABLES)
    slot = _make(source)
    source.run("INSERT INTO orders SELECT n, repeat('x', 100) FROM generate_series(2, 500) n")
    with source.connect() as session:
        row = session.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    page = LSN(LSN.parse(row[0]) // 8192 * 8192)
    source.run("INSERT INTO orders VALUES (1)")
    parsed, seen = functions.parse_state, []

    def at_a_page(row):
        found = parsed(row)
        seen.append(found.position)
        if len(seen) > looks:
            return found
        return replace(found, position=page)

    monkeypatch.setattr(functions, "parse_state", at_a_page)
    found = _look(source, slot)

    assert (found["changes"] == 500, found["complete"]) == (complete, complete)
