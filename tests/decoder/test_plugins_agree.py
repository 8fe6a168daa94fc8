"""test_decoding and wal2json against pgoutput, on one WAL of a running PostgreSQL 15."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql

from decoder.assembler import Assembler
from decoder.events import RelationSeen
from decoder.messages import Column
from decoder.plugins.shapes import ColumnsOf
from decoder.replication import XLogData, decode_frame
from decoder.scalars import LSN
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_programs import debian_postgres15
from tests.decoder import plugin_readings as readings
from tests.decoder.agreement import Summary, disagreements, explained_message, summary_of
from tests.support.wire import xlogdata_frame

_DATABASE = "plugins"
_SESSION = "-c timezone=UTC -c bytea_output=hex -c datestyle=ISO"


@dataclass
class Source:
    """The database after the workload; what pgoutput says of it."""

    connection: psycopg.Connection
    dsn: str
    expected: Summary


def _missing_plugin() -> str | None:
    folder = debian_postgres15()
    for plugin, package in (("test_decoding", "15"), ("wal2json", "15-wal2json")):
        if folder is None or not (folder.parent / "lib" / f"{plugin}.so").exists():
            return f"the plugin {plugin} is not installed (Debian's postgresql-{package})"
    return None


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    missing = _missing_plugin()
    if missing is not None:
        pytest.skip(missing)
    server: EmbeddedPostgres = request.getfixturevalue("source_cluster_15")
    server.create_database(_DATABASE)
    dsn = server.dsn(_DATABASE)
    with psycopg.connect(dsn, autocommit=True, options=_SESSION) as connection:
        allowed = _allow_plugins(connection)
        try:
            readings.run(connection)
            frames = [xlogdata_frame(LSN(lsn), data) for lsn, data in readings.frames(connection)]
            expected = summary_of(Assembler(proto_version=3).feed(frames))
            yield Source(connection, dsn, expected)
        finally:
            for slot in readings.SLOTS:
                connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                    "WHERE slot_name = %s",
                    [slot],
                )
            if allowed:
                connection.execute("ALTER SYSTEM RESET output_plugin_libraries")
                connection.execute("SELECT pg_reload_conf()")
    with psycopg.connect(server.dsn(), autocommit=True) as outside:
        outside.execute(sql.SQL("DROP DATABASE {} (FORCE)").format(sql.Identifier(_DATABASE)))


def _allow_plugins(connection: psycopg.Connection) -> bool:
    """The newest minor versions have a list of plugins that may be used."""
    row = connection.execute("SHOW output_plugin_libraries") if _has_list(connection) else None
    if row is None:
        return False
    connection.execute(
        "ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding, wal2json"
    )
    connection.execute("SELECT pg_reload_conf()")
    while "wal2json" not in connection.execute("SHOW output_plugin_libraries").fetchone()[0]:
        connection.execute("SELECT pg_sleep(0.05)")
    return True


def _has_list(connection: psycopg.Connection) -> bool:
    query = "SELECT 1 FROM pg_settings WHERE name = 'output_plugin_libraries'"
    return connection.execute(query).fetchone() is not None


def catalog_of(connection: psycopg.Connection) -> ColumnsOf:
    """Return a function that reads a table's present columns from the catalog."""

    def columns_of(schema: str, table: str) -> Sequence[Column] | None:
        rows = connection.execute(
            """
            SELECT a.attname, a.atttypid::bigint, a.atttypmod, coalesce(i.indisprimary, false),
                   format_type(a.atttypid, a.atttypmod)
              FROM pg_attribute a
              JOIN pg_class c ON c.oid = a.attrelid
              JOIN pg_namespace n ON n.oid = c.relnamespace
              LEFT JOIN pg_index i
                ON i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)
             WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY a.attnum
            """,
            [schema, table],
        ).fetchall()
        return [Column(*row) for row in rows] or None

    return columns_of


READINGS = [
    ("test_decoding", readings.TEST_DECODING_DIFFERENCES),
    *readings.WAL2JSON_DIFFERENCES.items(),
]


@pytest.mark.parametrize(("reading", "reasons"), READINGS)
def test_every_committed_change_is_equal_but_for_listed_differences(
    source: Source, reading: str, reasons: set[str]
) -> None:
    assembler = readings.assembler(reading, columns_of=catalog_of(source.connection))
    actual = summary_of(assembler.feed(readings.peek(source.connection, reading)))

    assert len(source.expected.committed) > 30
    assert disagreements(source.expected, actual) == reasons
    for message, wanted in zip(actual.messages, source.expected.messages, strict=True):
        assert explained_message(wanted, message) == []


@pytest.mark.parametrize("reading", [name for name, _ in READINGS])
def test_the_end_and_the_time_of_every_transaction_are_equal(source: Source, reading: str) -> None:
    expected = source.expected
    rows = readings.peek(source.connection, reading)
    assembler = readings.assembler(reading)
    actual = summary_of(assembler.feed(rows))

    for xid in expected.committed:
        assert actual.end_lsns[xid] == expected.end_lsns[xid]
        assert actual.times[xid] == expected.times[xid]
    if reading == "test_decoding":
        assert actual.prepared == expected.prepared
        assert actual.rolled_back == expected.rolled_back
    # Messages outside transactions end nothing; here none comes last.
    assert assembler.last_end_lsn == rows[-1][0]


@pytest.mark.parametrize("reading", [name for name, _ in READINGS])
def test_what_is_told_to_be_the_end_is_what_to_confirm(source: Source, reading: str) -> None:
    """Advancing a copy of the slot to a transaction's end leaves the later ones, and only them."""
    slot, _ = readings.READINGS[reading]
    actual = summary_of(readings.events(reading, readings.peek(source.connection, reading)))
    xids = list(actual.committed)
    middle = xids[len(xids) // 2]
    source.connection.execute("SELECT pg_copy_logical_replication_slot(%s, 'copy')", [slot])
    try:
        end_lsn = str(LSN(actual.end_lsns[middle]))
        source.connection.execute("SELECT pg_replication_slot_advance('copy', %s)", [end_lsn])
        rest = readings.peek(source.connection, reading, slot="copy")
    finally:
        source.connection.execute("SELECT pg_drop_replication_slot('copy')")
    left = summary_of(readings.events(reading, rest))

    # The copy has no two phases: what was prepared before comes whole at its commit.
    assert [xid for xid in left.committed if xid in xids] == xids[xids.index(middle) + 1 :]


@pytest.mark.parametrize("reading", [name for name, _ in READINGS])
def test_a_walsender_gives_the_same_rows_at_the_same_positions(
    source: Source, reading: str
) -> None:
    rows = readings.peek(source.connection, reading)
    streamed = readings.stream(source.connection, source.dsn, _SESSION, reading, len(rows))

    # Only the SQL functions cut a text at a NUL byte.
    assert [text.partition("\0")[0] for _, _, text in streamed] == [text for _, _, text in rows]
    # A row of a whole transaction is begun at its first record, and ended at its end.
    if reading != "wal2json_1_whole":
        assert [lsn for lsn, _, _ in streamed] == [lsn for lsn, _, _ in rows]
    actual, expected = (summary_of(readings.events(reading, part)) for part in (streamed, rows))
    assert actual.end_lsns == expected.end_lsns
    assert disagreements(expected, actual) <= {"cut content"}


@pytest.mark.parametrize("reading", ["test_decoding", "wal2json_2"])
def test_the_catalogs_shapes_are_those_the_inserts_tell(source: Source, reading: str) -> None:
    """A session that sees a table first in a delete finds the shape that its inserts have."""
    insert_first = readings.events(reading, readings.peek(source.connection, reading))
    told_shapes = [event.relation for event in insert_first if isinstance(event, RelationSeen)]
    as_inserted = {
        (shape.namespace, shape.name): shape
        for shape in told_shapes
        if shape.name in ("types", "t", "two", "whole", "toast", 'Odd "Table: x', "gen")
    }
    columns_of = catalog_of(source.connection)

    assert len(as_inserted) == 7
    for (schema, table), shape in as_inserted.items():
        truncated = readings.truncation_of(reading, schema, table)
        events = readings.assembler(reading, columns_of=columns_of).feed(truncated)
        (seen,) = [event.relation for event in events if isinstance(event, RelationSeen)]
        assert seen == shape


def test_frames_of_text_plugins_are_those_of_pgoutput() -> None:
    data = decode_frame(xlogdata_frame(LSN(7), b"BEGIN 7"))

    assert isinstance(data, XLogData)
    assert (data.wal_start, data.payload) == (7, b"BEGIN 7")
