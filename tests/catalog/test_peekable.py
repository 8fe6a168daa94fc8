"""Slots are listed with whether they can be peeked, on every version."""

import pytest
from psycopg import sql

from decoder.scalars import LSN
from replview.catalog.connections import connect_replication, connected
from replview.catalog.peekable import PeekableServer, read_place
from replview.catalog.slots import SlotFacts


def place(**values) -> PeekableServer:
    known = {"database": "shop", "version": 180004, "in_recovery": False, "position": LSN(1),
             "slots": [], "publications": ["p", "q"], "subscribed": {}}  # fmt: skip
    return PeekableServer(**(known | values))


def slot(**values) -> SlotFacts:
    known = {"slot_name": "theirs", "slot_type": "logical", "active": False,
             "plugin": "pgoutput", "database": "shop"}  # fmt: skip
    return SlotFacts(**(known | values))


@pytest.mark.parametrize("plugin", ["pgoutput", "test_decoding", "wal2json"])
def test_an_idle_slot_of_this_database_can_be(plugin: str) -> None:
    assert place().refusal(slot(plugin=plugin)) == ""


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"slot_type": "physical", "plugin": None, "database": None}, "physical"),
        ({"active": True, "active_pid": 77}, "another session is reading it (pid 77)"),
        ({"database": "crm"}, "belongs to database crm, and this source connects to shop"),
        ({"plugin": "decoderbufs"}, "output plugin decoderbufs"),
        ({"wal_status": "lost"}, "lost"),
        ({"invalidation_reason": "idle_timeout"}, "invalidated (idle_timeout)"),
        ({"conflicting": True}, "conflict"),
    ],
)
def test_others_say_why_not(values: dict[str, object], why: str) -> None:
    assert why in place().refusal(slot(**values))


def test_on_a_standby() -> None:
    assert "needs PostgreSQL 16" in place(in_recovery=True, version=150004).refusal(slot())
    assert place(in_recovery=True).refusal(slot()) == ""
    assert "from the primary" in place(in_recovery=True).refusal(slot(synced=True))
    assert place().refusal(slot(synced=True)) == "", "a promoted one is like any other"


def test_pgoutput_needs_a_publication() -> None:
    bare = place(publications=[])
    assert "needs a publication" in bare.refusal(slot())
    assert bare.refusal(slot(plugin="test_decoding")) == ""


def test_the_publications_its_reader_uses() -> None:
    known = place(subscribed={"theirs": ["q", "gone"]})
    assert known.used_by(slot(), []) == ["q"]
    assert known.used_by(slot(), ["p"]) == ["p"], "what replview itself reads outweighs it"
    assert known.used_by(slot(slot_name="other"), []) == []


@pytest.mark.parametrize(
    ("size", "words"),
    [(None, "an unknown amount"), (0, "0\xa0B"), (84 << 10, "84\xa0kB"), (3 << 30, "3\xa0GB")],
)
def test_the_cost_is_said(size: int | None, words: str) -> None:
    cost = place().cost(slot(retained_wal_bytes=size, restart_lsn=LSN.parse("2/1C8")), 15)
    assert f"decodes {words} of WAL, from restart_lsn 2/1C8" in cost
    assert "up to 15 seconds" in cost
    assert cost.endswith("does not advance the slot")


def test_all_slots_of_the_server_are_read(any_source) -> None:
    any_source.run(
        "CREATE PUBLICATION p FOR ALL TABLES",
        "SELECT pg_create_logical_replication_slot('idle_one', 'pgoutput')",
        "SELECT pg_create_logical_replication_slot('busy_one', 'pgoutput')",
        "SELECT pg_create_physical_replication_slot('standby_one')",
    )
    try:
        with connect_replication(any_source.dsn) as reader:
            start = sql.SQL(
                "START_REPLICATION SLOT busy_one LOGICAL 0/0 "
                "(proto_version '1', publication_names 'p')"
            )
            reader.pgconn.exec_(start.as_bytes(None))
            with connected(any_source.dsn) as connection:
                found = read_place(connection)
            reader.pgconn.finish()
    finally:
        any_source.run("SELECT pg_drop_replication_slot('standby_one')")

    refusals = {row.slot_name: found.refusal(row) for row in found.slots}
    assert refusals["idle_one"] == ""
    assert "is reading it" in refusals["busy_one"]
    assert "physical" in refusals["standby_one"]
    assert (found.database, found.publications) == (any_source.name, ["p"])
    assert found.position is not None
    assert found.slot("nobody") is None


def test_the_publications_of_a_subscription_are_known(source) -> None:
    source.run(
        "CREATE PUBLICATION p FOR ALL TABLES",
        "CREATE PUBLICATION q FOR ALL TABLES",
        "CREATE SUBSCRIPTION s CONNECTION 'dbname=nowhere' PUBLICATION q "
        "WITH (connect = false, slot_name = 'theirs')",
    )
    try:
        with connected(source.dsn) as connection:
            found = read_place(connection)
    finally:
        source.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s")

    assert found.used_by(slot(database=source.name), []) == ["q"]
