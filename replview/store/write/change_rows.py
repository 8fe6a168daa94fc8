"""Rows of ``change`` as binary COPY: the layout the receiver's hot loop packs against.

The columns that are never null come first and in this order, so that a row is a few constant
pieces and two or three small packs. See PostgreSQL's documentation, COPY, Binary Format.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

#: Column order of the binary COPY.
COPY_COLUMNS = (
    "transaction_id",
    "seq",
    "lsn",
    "relation_id",
    "version_id",
    "op",
    "key_hash",
    "subxid",
    "old_kind",
    "old",
    "new",
    "old_key_hash",
)
COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
COPY_TRAILER = b"\xff\xff"

NULL = b"\xff\xff\xff\xff"
_HEAD = struct.Struct("!hiq")
_SEQ_LSN = struct.Struct("!iiiQ")
_TABLE = struct.Struct("!iqiqic")
_INT8 = struct.Struct("!iq")
_UINT8 = struct.Struct("!iQ")
_JSONB = struct.Struct("!ib")


def row_head(transaction_id: int) -> bytes:
    """Number of columns and ``transaction_id``: the same for a whole transaction."""
    return _HEAD.pack(len(COPY_COLUMNS), 8, transaction_id)


def row_table(relation_id: int | None, version_id: int | None, op: str) -> bytes:
    """``relation_id``, ``version_id``, ``op``: the same for one operation on one table."""
    if relation_id is None or version_id is None:
        return NULL + NULL + b"\x00\x00\x00\x01" + op.encode()
    return _TABLE.pack(8, relation_id, 8, version_id, 1, op.encode())


#: ``pack_seq_lsn(4, seq, 8, lsn)``.
pack_seq_lsn = _SEQ_LSN.pack
#: ``pack_hash(8, hash)``: 64 bits as they are; the column is signed.
pack_hash = _UINT8.pack
#: ``pack_subxid(8, subxid)``.
pack_subxid = _INT8.pack
#: ``pack_jsonb(len(document) + 1, 1)``, before the document itself.
pack_jsonb = _JSONB.pack


#: Characters a piece; a piece of 4-byte characters is 16 MB.
PIECE_CHARACTERS = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LargeText:
    """One value and where it belongs."""

    transaction_id: int
    seq: int
    #: ``old`` or ``new``.
    side: str
    column: str
    text: str


def store_large_values(connection: psycopg.Connection[Any], values: Iterable[LargeText]) -> None:
    """Store the values, a piece a row; runs inside the store transaction."""
    for value in values:
        for piece, start in enumerate(range(0, len(value.text), PIECE_CHARACTERS)):
            connection.execute(
                'INSERT INTO large_value (transaction_id, seq, side, "column", piece, content)'
                " VALUES (%s, %s, %s, %s, %s, %s)",
                [
                    value.transaction_id,
                    value.seq,
                    value.side,
                    value.column,
                    piece,
                    value.text[start : start + PIECE_CHARACTERS],
                ],
            )
