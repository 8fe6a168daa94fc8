"""The catalog's rows as dataclasses, on every version."""

import psycopg
import pytest

from replview.catalog.connections import connect
from replview.catalog.holders import read_open_transactions
from replview.catalog.publications import read_publications
from replview.catalog.server import read_position, read_server_facts
from replview.catalog.slots import (
    read_slot_states,
    read_slots,
    read_stat_replication,
)
from replview.catalog.tables import leaves_of, primary_key_columns, read_tables, type_names


def make_slot(source, name: str, temporary: bool = False) -> None:
    source.run(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', {temporary})")


def test_server_facts(any_source) -> None:
    with connect(any_source.dsn) as connection:
        facts = read_server_facts(connection)
        position = read_position(connection)

    assert facts.major == any_source.server.version
    assert facts.wal_level == "logical"
    assert facts.encoding == "UTF8"
    assert facts.max_slot_wal_keep_bytes == (-1 if any_source.version >= 13 else None)
    decoding_memory = 64 * 1024 if any_source.version >= 13 else None
    assert facts.logical_decoding_work_mem_bytes == decoding_memory
    assert facts.idle_slot_timeout_seconds == (0 if any_source.version >= 18 else None)
    assert facts.hot_standby_feedback is False
    assert facts.system_identifier is not None
    assert facts.timeline == 1
    assert not facts.in_recovery
    assert facts.wal_sender_timeout_ms == 60_000
    assert position > 0


def test_slots_keep_what_the_version_does_not_know_as_none(any_source) -> None:
    make_slot(any_source, "reading")

    with connect(any_source.dsn) as connection:
        slot = next(item for item in read_slots(connection) if item.slot_name == "reading")
        counters = read_slot_states(connection).counters

    version = any_source.server.version
    assert slot.active is False
    assert slot.two_phase is (False if version >= 14 else None)
    assert slot.wal_status == ("reserved" if version >= 13 else None)
    assert slot.retained_wal_bytes >= slot.unconfirmed_wal_bytes >= 0
    assert (slot.failover is None) == (version < 17)
    assert (slot.conflicting is None) == (version < 16)
    assert slot.inactive_since is None or version >= 17
    assert "catalog_xmin" in slot.further
    assert counters.get("reading", {"spill_txns": 0})["spill_txns"] == 0


def test_walsenders_are_told_in_json_types(any_source) -> None:
    with connect(any_source.dsn) as connection:
        assert all(isinstance(pid, int) for pid in read_stat_replication(connection))


def test_a_deferrable_key_is_no_identity(any_source) -> None:
    any_source.run(
        "CREATE TABLE moved (id int PRIMARY KEY DEFERRABLE, note text)",
        "INSERT INTO moved VALUES (1, '')",
        "CREATE PUBLICATION all_of_it FOR TABLE moved",
    )
    with connect(any_source.dsn) as connection:
        (table,) = read_tables(connection)

    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="replica identity"):
        any_source.run("UPDATE moved SET note = 'x'")
    assert not table.usable
    assert table.primary_key == ("id",), "rows are told apart by it all the same"


def test_identities_say_which_tables_can_publish_updates(any_shop) -> None:
    with connect(any_shop.dsn) as connection:
        tables = {table.name: table for table in read_tables(connection)}

    usable = {name for name, table in tables.items() if table.usable}
    assert usable == {"orders", "whole", "by_index", "events", "events_2026"}
    assert tables["by_index"].identity_columns == ("code",)
    assert tables["silent"].primary_key == ("id",)
    assert tables["events"].partitioned
    assert leaves_of(tables["events"], tables.values()) == [tables["events_2026"]]


def test_a_dropped_identity_index_leaves_the_table_unusable(source) -> None:
    source.run(
        "CREATE TABLE t (code text NOT NULL UNIQUE)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
        "ALTER TABLE t DROP CONSTRAINT t_code_key",
    )
    with connect(source.dsn) as connection:
        (table,) = read_tables(connection)

    assert table.replica_identity == "INDEX"
    assert not table.usable


def test_primary_key_in_its_own_order(any_source) -> None:
    any_source.run("CREATE TABLE t (a int, b int, c int, PRIMARY KEY (c, a))")
    with connect(any_source.dsn) as connection:
        (table,) = read_tables(connection)
        assert primary_key_columns(connection, table.oid) == ["c", "a"]
        assert primary_key_columns(connection, 1) == []
    assert table.primary_key == ("c", "a")


def test_type_names_as_sql_writes_them(any_source) -> None:
    any_source.run("CREATE TYPE mood AS ENUM ('fine')")
    with connect(any_source.dsn) as connection:
        (oid,) = connection.execute("SELECT 'public.mood'::regtype::oid").fetchone()
        names = type_names(connection, [20, 1043, oid, 4_000_000_000])
    assert names == {20: "bigint", 1043: "character varying", oid: "public.mood"}


def test_publications_with_columns_where_the_version_has_them(any_shop) -> None:
    any_shop.run("CREATE PUBLICATION p FOR TABLE orders WITH (publish = 'insert')")
    with connect(any_shop.dsn) as connection:
        (publication,) = read_publications(connection)

    assert not publication.needs_identity
    assert publication.via_root is (False if any_shop.version >= 13 else None)
    columns = ("id", "status", "note") if any_shop.version >= 15 else None
    assert [(t.schema, t.name, t.columns) for t in publication.tables] == [
        ("public", "orders", columns)
    ]


def test_open_and_prepared_transactions(any_shop) -> None:
    with any_shop.connect() as writer, connect(any_shop.dsn) as connection:
        writer.execute("BEGIN; INSERT INTO orders VALUES (1)")
        (found,) = read_open_transactions(connection)
        assert found.pid == writer.info.backend_pid
        assert found.state == "idle in transaction"
        writer.execute("PREPARE TRANSACTION 'later'")
        (found,) = read_open_transactions(connection)
        assert (found.gid, found.database) == ("later", any_shop.name)


def test_reading_cannot_write(source) -> None:
    with connect(source.dsn) as connection:
        (read_only,) = connection.execute("SHOW transaction_read_only").fetchone()
    assert read_only == "on"
