"""Rows of ``change`` and ``transaction`` are packed here in the layout of binary COPY.

The receiver's hot loop does that. Columns that are never null come first, so that a row is a few
constant pieces and two or three small packs. See PostgreSQL's documentation, COPY, Binary Format.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
from psycopg import sql

from decoder.scalars import INFINITY_US, MINUS_INFINITY_US, us_from_datetime

CHANGE_COLUMNS = (
    "transaction_id", "seq", "lsn", "relation_id", "version_id", "op", "key_hash", "subxid",
    "old_kind", "old", "new", "old_key_hash",
)  # fmt: skip
TRANSACTION_COLUMNS = (
    "id", "incarnation_id", "received_at", "stored_at", "inserts", "updates", "deletes",
    "truncates", "messages", "size_bytes", "aborted_changes", "streamed", "state", "relations",
    "commit_seq", "xid", "first_lsn", "prepare_lsn", "commit_lsn", "end_lsn", "commit_time",
    "prepared_at", "ended_at", "gid", "origin", "actor", "actor_grade", "context", "actors",
)  # fmt: skip
COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
COPY_TRAILER = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"
_HEAD = struct.Struct("!hiq")
_SEQ_LSN = struct.Struct("!iiiQ")
_TABLE = struct.Struct("!iqiqic")
_JSONB = struct.Struct("!ib")
_FIXED = struct.Struct("!h" + "iq" * 11 + "ib")
_INT8 = struct.Struct("!iq")
_UINT8 = struct.Struct("!iQ")
_LENGTH = struct.Struct("!i")
#: Years 1 to 9999, the range of datetime; a commit time outside it, or infinite, is in ``context``.
_FIRST_US = us_from_datetime(datetime.min.replace(tzinfo=UTC))
_LAST_US = us_from_datetime(datetime.max.replace(tzinfo=UTC))
#: ``pack_seq_lsn(4, seq, 8, lsn)``.
pack_seq_lsn = _SEQ_LSN.pack
#: ``pack_hash(8, hash)``: an unsigned 64-bit hash in a column that is signed.
pack_hash = _UINT8.pack
#: ``pack_subxid(8, subxid)``.
pack_subxid = _INT8.pack
#: ``pack_jsonb(len(document) + 1, 1)``, before the document itself.
pack_jsonb = _JSONB.pack
#: Characters in one piece; a piece of 4-byte characters is 16 MB.
PIECE_CHARACTERS = 4 * 1024 * 1024


def _copy_into(table: str, columns: tuple[str, ...]) -> sql.Composed:
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )


COPY_CHANGES = _copy_into("change", CHANGE_COLUMNS)
COPY_TRANSACTIONS = _copy_into("transaction", TRANSACTION_COLUMNS)


def row_head(transaction_id: int) -> bytes:
    """Return the number of columns and ``transaction_id``: constant for a transaction."""
    return _HEAD.pack(len(CHANGE_COLUMNS), 8, transaction_id)


def row_table(relation_id: int | None, version_id: int | None, op: str) -> bytes:
    """Return ``relation_id``, ``version_id``, ``op``: constant for one operation on a table."""
    if relation_id is None or version_id is None:
        return NULL + NULL + b"\x00\x00\x00\x01" + op.encode()
    return _TABLE.pack(8, relation_id, 8, version_id, 1, op.encode())


@dataclass(frozen=True, slots=True)
class LargeText:
    """A value that is stored in ``large_value``, apart from its row."""

    transaction_id: int
    seq: int
    #: ``old`` or ``new``.
    side: str
    column: str
    #: Text in pieces of at most ``PIECE_CHARACTERS``.
    pieces: Iterable[str]


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text in pieces of ``PIECE_CHARACTERS``."""
    for start in range(0, len(text), PIECE_CHARACTERS):
        yield text[start : start + PIECE_CHARACTERS]


def store_large_values(connection: psycopg.Connection[Any], values: Iterable[LargeText]) -> None:
    """Store the values, one row a piece, inside the store transaction."""
    sql_text = """
        INSERT INTO large_value (transaction_id, seq, side, "column", piece, content)
        VALUES (%s, %s, %s, %s, %s, %s)
    """
    for value in values:
        value_key = (value.transaction_id, value.seq, value.side, value.column)
        for piece, content in enumerate(value.pieces):
            connection.execute(sql_text, [*value_key, piece, content])


@dataclass(slots=True, eq=False)
class Claim:
    """A message in a transaction that names an actor (``receiver.actors``)."""

    seq: int
    #: The actor; None: from here on there are more claims than are kept.
    actor: str | None
    #: True when changes other than claims and stamps precede it.
    preceded: bool
    #: Context that the claim added.
    context: dict[str, Any]
    #: Only in a stream: the subtransaction (0: none) of the change before the claim; seq and
    #: subtransaction of the change after it.
    before: int | None = None
    after: tuple[int, int] | None = None
    #: ``repeated``: further claims of the same actor followed and are omitted; ``perhaps``: the
    #: claim may have been rolled back.
    repeated: bool = False
    perhaps: bool = False


@dataclass(slots=True, eq=False)
class CopiedTransaction:
    """A row of ``transaction`` that is being built. Times are microseconds since 2000-01-01 UTC."""

    id: int
    incarnation_id: int
    received_at_us: int
    xid: int | None
    state: str
    gid: str | None = None
    streamed: bool = False
    commit_seq: int | None = None
    first_lsn: int | None = None
    prepare_lsn: int | None = None
    commit_lsn: int | None = None
    end_lsn: int | None = None
    commit_time_us: int | None = None
    prepared_at_us: int | None = None
    ended_at_us: int | None = None
    origin: str | None = None
    actor: str | None = None
    actor_grade: str | None = None
    context: dict[str, Any] | None = None
    #: Actors of the changes, where they differ (``models.history.Transaction``).
    actors: list[dict[str, Any]] | None = None
    #: Claims that count, in order; ``actors`` is derived from them.
    claims: list[Claim] | None = None
    #: Number of claims and stamps received.
    notes: int = 0
    #: Last change received: its ``seq``, and its subtransaction (0: none).
    last_seq: int = 0
    last_subxid: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    messages: int = 0
    size_bytes: int = 0
    aborted_changes: int = 0
    #: relation id → [inserts, updates, deletes, truncates].
    relations: dict[int, list[int]] = field(default_factory=dict)
    #: Subtransaction → (relation id, operation) → changes, to subtract when it aborts.
    subxid_changes: dict[int, dict[tuple[int | None, str], int]] = field(default_factory=dict)
    #: Subtransactions up to this one may be missing there, as there were too many; 0: none is.
    forgotten_subxid: int = 0
    #: Changes that aborts have subtracted so far: (relation id, operation) → changes.
    taken_back: dict[tuple[int | None, str], int] = field(default_factory=dict)
    #: True when the row is in the store: update it instead of inserting it.
    stored: bool = False
    #: True when the checkpoint covers the transaction already: nothing of it is stored.
    skipped: bool = False
    #: The decision (``quarantine`` id) to leave its changes out of the record.
    left_out: int | None = None
    #: True when a transition to ``streaming`` was recorded.
    streaming_noted: bool = False

    @property
    def changes(self) -> int:
        """Return the number of changes that count; for an aborted transaction, of all it made."""
        return self.inserts + self.updates + self.deletes + self.truncates + self.messages

    def set_commit_time(self, time_us: int | None) -> None:
        """Set the commit time; one that no datetime can represent goes into the context."""
        if time_us is None:
            return
        if _FIRST_US <= time_us <= _LAST_US:
            self.commit_time_us = time_us
            return
        infinite = {INFINITY_US: "infinity", MINUS_INFINITY_US: "-infinity"}
        text = infinite.get(time_us, f"{time_us} µs after 2000-01-01 UTC")
        self.context = {**(self.context or {}), "$commit_time": text}

    def pack(self, stored_at_us: int) -> bytes:
        """Return the row for ``COPY transaction (…) FROM STDIN (FORMAT BINARY)``."""
        # fmt: off
        fixed = _FIXED.pack(
            29, 8, self.id, 8, self.incarnation_id, 8, self.received_at_us, 8, stored_at_us,
            8, self.inserts, 8, self.updates, 8, self.deletes, 8, self.truncates,
            8, self.messages, 8, self.size_bytes, 8, self.aborted_changes, 1, self.streamed,
        )
        return b"".join((
            fixed, _text(self.state), _jsonb(self.relations_json()),
            _int8(self.commit_seq), _int8(self.xid),
            _lsn(self.first_lsn), _lsn(self.prepare_lsn), _lsn(self.commit_lsn),
            _lsn(self.end_lsn), _int8(self.commit_time_us), _time(self.prepared_at_us),
            _time(self.ended_at_us), _text(self.gid), _text(self.origin), _text(self.actor),
            _text(self.actor_grade),
            NULL if self.context is None else _jsonb(orjson.dumps(self.context)),
            NULL if self.actors is None else _jsonb(orjson.dumps(self.actors)),
        ))
        # fmt: on

    def relations_json(self) -> bytes:
        """Return ``{"relation id": [inserts, updates, deletes, truncates]}``."""
        return orjson.dumps(self.relations, option=orjson.OPT_NON_STR_KEYS)


def _int8(value: int | None) -> bytes:
    return NULL if value is None else _INT8.pack(8, value)


def _time(time_us: int | None) -> bytes:
    """Return a time packed for COPY; NULL if no datetime can represent it on reading."""
    return NULL if time_us is None or not _FIRST_US <= time_us <= _LAST_US else _int8(time_us)


def _lsn(value: int | None) -> bytes:
    return NULL if value is None else _UINT8.pack(8, value)


def _text(value: str | None) -> bytes:
    if value is None:
        return NULL
    encoded = value.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _jsonb(document: bytes) -> bytes:
    # Binary jsonb is a version byte, then the text.
    return _LENGTH.pack(len(document) + 1) + b"\x01" + document
