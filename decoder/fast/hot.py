"""The hot road: Insert, Update and Delete, decoded inline straight from the frame.

Nearly every message of a stream takes it. It makes one ``str`` a column and
nothing else, and it accepts exactly what ``decode`` and ``tuples`` accept, with
the same result. Whatever looks odd it leaves to them: they say what is wrong.

Layout of a frame: ``w``, three 8-byte header fields, then at 25 the tag byte,
inside a stream block the xid, the relation's oid, and the tuples.
"""

from __future__ import annotations

import struct
from typing import Final

from decoder.messages import OldKind, Relation
from decoder.tuples import (
    BINARY,
    NULL,
    TEXT,
    UNCHANGED,
    UNCHANGED_TOAST,
    Value,
)
from decoder.values import ValueDecoder, leave_out_non_key

TAG_AT: Final = 25
BEGIN: Final = ord("B")
COMMIT: Final = ord("C")
INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
XLOGDATA: Final = ord("w")

#: A whole Begin: ``wal_start``, commit LSN, commit time, xid.
BEGIN_FRAME: Final = struct.Struct(">xQ17xQqI")
#: A whole Commit: flags, commit LSN, end LSN, commit time.
COMMIT_FRAME: Final = struct.Struct(">26xBQQq")
#: A frame's letter and ``wal_start``.
frame_head = struct.Struct(">BQ").unpack_from

#: How a text column of under 256 bytes begins, the last byte of its length aside.
SEPARATOR: Final = "t\0\0\0"

_MARKS: Final[dict[str, Value]] = {"n": None, "u": UNCHANGED}
_UINT16 = struct.Struct(">H").unpack_from
_UINT32 = struct.Struct(">I").unpack_from


def read_insert(
    frame: bytes, position: int, relation: Relation, values: ValueDecoder
) -> list[Value] | None:
    """The row whose column count is at ``position``; ``None`` if anything is odd."""
    try:
        row, end = read_tuple(frame, position, relation, values)
    except (IndexError, struct.error):
        return None
    return row if end == len(frame) else None


def row_of_pieces(pieces: list[str], columns: int) -> list[Value] | None:
    """A row from its tuple split at ``SEPARATOR``, the column count left off.

    A piece is a text column, its length first, and the marks of columns without
    a value after it; the first piece is such marks alone. ``None`` if it is not so.
    """
    marks = _MARKS
    row: list[Value] = []
    add = row.append
    try:
        for mark in pieces[0]:
            add(marks[mark])
        del pieces[0]
        for piece in pieces:
            end = ord(piece[0]) + 1
            add(piece[1:end])
            if len(piece) != end:
                if len(piece) < end:
                    return None
                for mark in piece[end:]:
                    add(marks[mark])
    except (IndexError, KeyError):
        return None
    return row if len(row) == columns else None


def read_last_tuple(
    frame: bytes, position: int, relation: Relation, values: ValueDecoder
) -> list[Value] | None:
    """The values of the tuple at ``position``, which ends the frame; ``None`` if it is odd.

    Raises as ``read_tuple`` does.
    """
    columns = len(relation.columns)
    body = frame[position + 2 :]
    if values.ascii_is_plain and body.isascii() and _UINT16(frame, position) == (columns,):
        fast = row_of_pieces(body.decode().split(SEPARATOR), columns)
        if fast is not None:
            return fast
    row, end = read_tuple(frame, position, relation, values)
    return row if end == len(frame) else None


def read_tuple(
    frame: bytes, position: int, relation: Relation, values: ValueDecoder
) -> tuple[list[Value], int]:
    """The values of the tuple at ``position``, and where it ends.

    The end may lie beyond the frame: the caller compares. Raises ``IndexError``
    or ``struct.error`` if the tuple is cut off, unlike ``relation``, or odd.
    """
    (count,) = _UINT16(frame, position)
    if count != len(relation.columns):
        raise IndexError
    position += 2
    unpack, encoding = _UINT32, values.encoding
    row: list[Value] = []
    add = row.append
    for column in relation.columns:
        kind = frame[position]
        if kind == TEXT:
            (size,) = unpack(frame, position + 1)
            start = position + 5
            position = start + size
            try:
                add(str(frame[start:position], encoding))
            except UnicodeError:
                add(values.text(frame[start:position], column.type_oid))
        elif kind == NULL:
            add(None)
            position += 1
        elif kind == UNCHANGED_TOAST:
            add(UNCHANGED)
            position += 1
        elif kind == BINARY:
            (size,) = unpack(frame, position + 1)
            start = position + 5
            position = start + size
            add(values.binary(frame[start:position], column.type_oid))
        else:
            raise IndexError
    return row, position


#: What follows the operation in a ``Change``: which old tuple, old, new.
Row = tuple[OldKind | None, list[Value] | None, list[Value] | None]


def read_update(
    frame: bytes, position: int, relation: Relation, values: ValueDecoder
) -> Row | None:
    """The tuples of an Update; ``position`` is just behind its relation's oid.

    ``None`` if anything is odd.
    """
    old_kind: OldKind | None = None
    old: list[Value] | None = None
    try:
        if frame[position] != ord("N"):
            old_kind, old, position = _read_old(frame, position, relation, values)
            if frame[position] != ord("N"):
                return None
        new = read_last_tuple(frame, position + 1, relation, values)
    except (IndexError, struct.error):
        return None
    return None if new is None else (old_kind, old, new)


def read_delete(
    frame: bytes, position: int, relation: Relation, values: ValueDecoder
) -> Row | None:
    """The tuple of a Delete; as ``read_update``."""
    try:
        old_kind, old, end = _read_old(frame, position, relation, values)
    except (IndexError, struct.error):
        return None
    return (old_kind, old, None) if end == len(frame) else None


def _read_old(
    frame: bytes, position: int, relation: Relation, values: ValueDecoder
) -> tuple[OldKind, list[Value], int]:
    letter = frame[position]
    old, end = read_tuple(frame, position + 1, relation, values)
    if letter == ord("K"):
        leave_out_non_key(old, relation)
        return "K", old, end
    if letter == ord("O"):
        return "O", old, end
    raise IndexError
