"""The ways to read what plugins say of ``plugin_workload``: functions, options, a walsender."""

from __future__ import annotations

import contextlib
import json
import select

import psycopg
from psycopg import pq

from decoder.events import Event
from decoder.plugins.collecting import PluginRow
from decoder.plugins.shapes import ColumnsOf
from decoder.plugins.test_decoding import TEST_DECODING_OPTIONS, TestDecodingAssembler
from decoder.plugins.wal2json import Wal2JsonAssembler, wal2json_options
from decoder.replication import XLogData, decode_frame
from decoder.scalars import LSN
from tests.decoder import plugin_workload

#: By slot: its plugin, whether it has two phases, and what reads it.
SLOTS = {
    "pgoutput": ("pgoutput", True),
    "test_decoding": ("test_decoding", True),
    "wal2json": ("wal2json", False),
}
WHOLE = dict(wal2json_options(1)) | {"write-in-chunks": "false"}
#: By reading: the slot and the options.
READINGS = {
    "test_decoding": ("test_decoding", TEST_DECODING_OPTIONS),
    "wal2json_1": ("wal2json", wal2json_options(1)),
    "wal2json_1_whole": ("wal2json", WHOLE),
    "wal2json_2": ("wal2json", wal2json_options(2)),
}
#: The reasons (see ``agreement.REASONS``) by which each reading differs from pgoutput's.
TEST_DECODING_DIFFERENCES = {"all key", "cut content", "more columns", "not published", "old null"}
_WAL2JSON = {"cut content", "dropped column", "more columns", "not a number", "not published"}
_FORMAT_1 = _WAL2JSON | {"no truncate", "no-op under FULL", "old null"}
WAL2JSON_DIFFERENCES = {
    "wal2json_1": _FORMAT_1,
    "wal2json_1_whole": _FORMAT_1,
    "wal2json_2": _WAL2JSON | {"no options"},
}
PGOUTPUT = {"proto_version": "3", "publication_names": "p", "messages": "true"}


def run(connection: psycopg.Connection) -> None:
    """Make the tables, then the slots, then do the work."""
    connection.execute(plugin_workload.SETUP)
    for slot, (plugin, two_phase) in SLOTS.items():
        connection.execute(
            "SELECT pg_create_logical_replication_slot(%s, %s, false, %s)",
            [slot, plugin, two_phase],
        )
    for line in plugin_workload.WORKLOAD.strip().splitlines():
        connection.execute(line)


def frames(connection: psycopg.Connection) -> list[tuple[int, bytes]]:
    """Return pgoutput's messages from its slot, each with its LSN."""
    rows = connection.execute(
        "SELECT lsn, data FROM pg_logical_slot_peek_binary_changes('pgoutput', NULL, NULL, "
        "VARIADIC %s::text[])",
        [[word for option in PGOUTPUT.items() for word in option]],
    )
    return [(LSN.parse(lsn), data) for lsn, data in rows.fetchall()]


def peek(connection: psycopg.Connection, reading: str, slot: str = "") -> list[PluginRow]:
    """Return a text plugin's rows from its own slot, or from ``slot`` where one is given."""
    own, options = READINGS[reading]
    rows = connection.execute(
        "SELECT lsn, xid::text::bigint, data FROM pg_logical_slot_peek_changes(%s, NULL, NULL, "
        "VARIADIC %s::text[])",
        [slot or own, [word for option in options.items() for word in option]],
    )
    return [(int(LSN.parse(lsn)), xid, data) for lsn, xid, data in rows.fetchall()]


def stream(
    connection: psycopg.Connection, dsn: str, session: str, reading: str, count: int
) -> list[PluginRow]:
    """The first ``count`` rows through a walsender, which tells no xid. Confirms nothing."""
    slot, options = READINGS[reading]
    given = ", ".join(f"\"{name}\" '{value}'" for name, value in options.items())
    rows: list[PluginRow] = []
    sender = psycopg.connect(
        dsn, autocommit=True, options=session, replication="database", prepare_threshold=None
    )
    with contextlib.closing(sender):
        wire = sender.pgconn
        wire.send_query(f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 ({given})'.encode())
        wire.flush()
        while wire.is_busy():
            _read(wire)
        started = wire.get_result()
        assert started is not None
        assert started.status == pq.ExecStatus.COPY_BOTH, started.error_message
        while len(rows) < count:
            length, frame = wire.get_copy_data(1)
            if not length:
                _read(wire)
            elif frame[:1] == b"w":
                data = decode_frame(bytes(frame))
                assert isinstance(data, XLogData)
                rows.append((int(data.wal_start), 0, data.payload.decode()))
    active = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
    while connection.execute(active, [slot]).fetchone():
        connection.execute("SELECT pg_sleep(0.02)")
    return rows


def _read(wire: pq.abc.PGconn) -> None:
    readable, _, _ = select.select([wire.socket], [], [], 20)
    assert readable, "the walsender is silent"
    wire.consume_input()


def truncation_of(reading: str, schema: str, table: str) -> list[PluginRow]:
    """A transaction whose only change is a TRUNCATE: it names the table and nothing else."""
    if reading == "test_decoding":
        named = f'"{schema}"."{table.replace(chr(34), chr(34) * 2)}"'
        texts = ["BEGIN 7", f"table {named}: TRUNCATE: (no-flags)", "COMMIT 7"]
    else:
        row = json.dumps({"action": "T", "schema": schema, "table": table})
        texts = ['{"action":"B","xid":7}', row, '{"action":"C","xid":7}']
    return [(place, 7, text) for place, text in enumerate(texts, 1)]


def assembler(
    reading: str, columns_of: ColumnsOf | None = None
) -> TestDecodingAssembler | Wal2JsonAssembler:
    """Return an assembler for the rows of this reading."""
    if reading == "test_decoding":
        return TestDecodingAssembler(columns_of=columns_of)
    return Wal2JsonAssembler(
        format_version=2 if reading == "wal2json_2" else 1, columns_of=columns_of
    )


def events(reading: str, rows: list[PluginRow]) -> list[Event]:
    """Return the events that the rows of this reading make."""
    return assembler(reading).feed(rows)
