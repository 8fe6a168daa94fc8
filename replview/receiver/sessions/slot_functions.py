"""Build the queries that read a slot through PostgreSQL's SQL functions, and parse their results.

A query string is one transaction: it sets, opens or prepares nothing beyond that, so it works
through a pooler that assigns each transaction another server connection. The output settings are
the same as in a walsender session. ``search_path`` keeps its value, as it does there, because the
text of a regclass depends on it; so every function is called with its schema.

Sources: PostgreSQL, logicalfuncs.c, slotfuncs.c; documentation, "Replication Management Functions".
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from decoder.fast.hot import TAG_AT
from decoder.reader import ProtocolError
from decoder.scalars import LSN, lsn_from_text
from replview.receiver.connecting import TEXT_SETTINGS
from replview.receiver.problems import lost, trouble

#: PostgreSQL's XLOG_BLCKSZ in all common builds.
WAL_PAGE_BYTES = 8192
#: Header of a binary COPY before its first row: signature, flags, length of the extension.
_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
#: Bytes before a row's payload: column count, length and value of lsn, length of data.
_ROW_HEAD_BYTES = 2 + 4 + 8 + 4
_ROW_START = b"\x00\x02\x00\x00\x00\x08"
_NO_CLOCK = bytes(8)
_STREAM_ABORT = ord("A")

_TIMELINE = """
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN
        (SELECT greatest(c.timeline_id, r.min_recovery_end_timeline)
           FROM pg_catalog.pg_control_checkpoint() c, pg_catalog.pg_control_recovery() r)
    ELSE ('x' || substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)
         )::bit(32)::int
    END
"""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of the server and the slot, as a state query returns it."""

    #: Position up to which WAL is flushed (on a standby: replayed) and can be decoded.
    position: LSN
    timeline: int
    #: The slot's row of pg_replication_slots by column; None: there is no such slot.
    slot: Mapping[str, Any] | None
    #: Status of each xid in the query: committed, aborted, in progress; None: unknown.
    statuses: Mapping[int, str | None] = field(default_factory=dict)

    def slot_lsn(self, column: str) -> LSN:
        """Return a position of the slot's row by its column; 0/0 where that is NULL."""
        return lsn_from_text((self.slot or {}).get(column)) or LSN(0)


def state_query(slot: str, xids: Collection[int] = ()) -> sql.Composable:
    """Return the SELECT whose row ``parse_state`` takes.

    Of the full transaction ids with these 32 bits, the one nearest to the present is meant. It is
    not always an earlier one: ``xmax`` follows the last that *completed*.
    """
    status = sql.SQL(
        "{}, pg_catalog.txid_status(m + (({} - m + 2147483648) & 4294967295) - 2147483648)"
    )
    statuses = sql.SQL(", ").join(status.format(sql.Literal(str(x)), sql.Literal(x)) for x in xids)
    return sql.SQL(
        """
        SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
                    THEN pg_catalog.pg_last_wal_replay_lsn()
                    ELSE pg_catalog.pg_current_wal_flush_lsn() END::text,
               {timeline},
               (SELECT pg_catalog.row_to_json(s) FROM pg_catalog.pg_replication_slots s
                 WHERE s.slot_name = {slot}),
               pg_catalog.json_build_object({statuses})
          FROM pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot()) AS m
        """
    ).format(timeline=sql.SQL(_TIMELINE), slot=sql.Literal(slot), statuses=statuses)


def parse_state(row: tuple[bytes | None, ...]) -> ServerState:
    """Return the row of a ``state_query`` as a ``ServerState``."""
    position, timeline, slot, statuses = row
    return ServerState(
        LSN(0) if position is None else LSN.parse(position.decode()),
        int(timeline or 0),
        None if slot is None else json.loads(slot.decode(errors="replace")),
        {int(xid): status for xid, status in json.loads(statuses or b"{}").items()},
    )


def advance(slot: str, lsn: int, timeline: int) -> sql.Composable:
    """Return the SELECT that moves the slot forward to ``lsn``, never backward.

    It does nothing if the server is on another timeline than ``timeline``.
    """
    return sql.SQL(
        """
        SELECT pg_catalog.pg_replication_slot_advance(s.slot_name, {lsn})
          FROM pg_catalog.pg_replication_slots s
         WHERE s.slot_name = {slot} AND s.confirmed_flush_lsn < {lsn} AND {timeline} = {known}
        """
    ).format(
        lsn=sql.Literal(str(LSN(lsn))) + sql.SQL("::pg_catalog.pg_lsn"),
        slot=sql.Literal(slot),
        timeline=sql.SQL(_TIMELINE),
        known=sql.Literal(timeline),
    )


def peek(
    slot: str, options: Mapping[str, str], *, upto_lsn: LSN | None, upto_changes: int | None
) -> sql.Composable:
    """Return the COPY of what waits in the slot; the slot does not move.

    The binary function also returns a text plugin's output, in the server's encoding: exactly the
    bytes that a walsender would send. The server checks the limit of changes only at the end of a
    transaction, or of a block of a streamed one.
    """
    arguments = [text for pair in options.items() for text in pair]
    return sql.SQL(
        "COPY (SELECT lsn, data FROM pg_catalog.pg_logical_slot_peek_binary_changes("
        "{}, {}, {}, VARIADIC {}::text[])) TO STDOUT (FORMAT BINARY)"
    ).format(
        sql.Literal(slot),
        sql.Literal(None if upto_lsn is None else str(upto_lsn)),
        sql.Literal(upto_changes),
        sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(map(sql.Literal, arguments))),
    )


def settings(server_version: int, client_encoding: str, *, on_linux: bool) -> list[sql.Composable]:
    """Return the SET LOCAL statements of a peek: text format, no timeouts, client checks.

    The checks let the server detect that its client is gone.
    """
    values = {
        **TEXT_SETTINGS,
        "client_encoding": client_encoding,
        "statement_timeout": "0",
        **({"transaction_timeout": "0"} if server_version >= 170000 else {}),
        # Only some operating systems support it.
        **(
            {"client_connection_check_interval": "2s"}
            if on_linux and server_version >= 140000
            else {}
        ),
    }
    return [
        sql.SQL("SET LOCAL {} = {}").format(sql.SQL(name), sql.Literal(value))
        for name, value in values.items()
    ]


def query_string(statements: list[sql.Composable]) -> bytes:
    """Join statements into one read-only transaction, whatever the role's defaults are."""
    first: list[sql.Composable] = [
        sql.SQL("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY")
    ]
    return sql.SQL("; ").join(first + statements).as_bytes(None)


def frame_of(row: bytes) -> bytes | None:
    """Return a row of ``peek`` as the XLogData frame of a walsender; None if it is not a row.

    Raises ``ProtocolError`` for anything that is not one row of the two columns.
    """
    if row.startswith(_COPY_HEADER):
        row = row[len(_COPY_HEADER) :]
    if row in (b"", _COPY_TRAILER):
        return None
    size = int.from_bytes(row[14:18], "big")
    if row[:6] != _ROW_START or len(row) != _ROW_HEAD_BYTES + size:
        raise ProtocolError("CopyData", 0, "one row of lsn and data")
    lsn = row[6:14]
    return b"w" + lsn + lsn + _NO_CLOCK + row[18:]


def without_stream_aborts(frames: list[bytes]) -> list[bytes]:
    """Return the frames of a peek without streaming, without stream abort messages.

    PostgreSQL 18 sends these for a transaction that it has not sent, too, and without the position
    and time that ``streaming=parallel`` adds. There is nothing to undo.
    """
    return [frame for frame in frames if frame[TAG_AT] != _STREAM_ABORT]


def check_left_alone(server: ServerState, slot: str, *, timeline: int, stored_lsn: int) -> None:
    """Raise ``SourceProblem`` where the slot is gone or moved, or this is another server."""
    facts = server.slot
    if server.timeline != timeline:
        raise trouble("other_server")
    if facts is None:
        raise trouble("slot_missing", slot=slot)
    if facts.get("wal_status") == "lost" or facts.get("invalidation_reason"):
        raise lost(slot, facts.get("invalidation_reason"))
    if server.slot_lsn("confirmed_flush_lsn") > stored_lsn:
        raise trouble("slot_consumed", slot=slot)
