"""The hot path decodes Insert, Update and Delete inline, straight from the frame.

Nearly every message of a stream takes this path. It makes one ``str`` a column and
nothing else. It accepts exactly the messages that ``decode`` accepts, with
the same result. It leaves a malformed message to ``decode``, which raises the
error.

Layout of a frame: ``w``, three 8-byte header fields, then at 25 the tag byte,
inside a stream block the xid, the relation's oid, and the tuples.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from decoder.events import ChangeEvent
from decoder.messages import (
    BINARY,
    NULL,
    TEXT,
    UNCHANGED,
    UNCHANGED_TOAST,
    OldKind,
    RelationMessage,
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
#: The first byte of a frame, ``w`` for XLogData, and its ``wal_start``.
frame_head = struct.Struct(">BQ").unpack_from

#: The first bytes of a text column of under 256 bytes, without the last byte of its length.
SEPARATOR: Final = "t\0\0\0"

_MARKS: Final[dict[str, Value]] = {"n": None, "u": UNCHANGED}
_UINT16 = struct.Struct(">H").unpack_from
_UINT32 = struct.Struct(">I").unpack_from
#: The fields of a ``ChangeEvent`` after its operation: ``old_kind``, ``old``, ``new``.
DecodedRow = tuple[OldKind | None, list[Value] | None, list[Value] | None]


def read_insert(
    frame: bytes, position: int, relation: RelationMessage, values: ValueDecoder
) -> list[Value] | None:
    """Return the row whose column count is at ``position``, or ``None`` if it is malformed."""
    try:
        row, end = read_tuple(frame, position, relation, values)
    except (IndexError, struct.error):
        return None
    return row if end == len(frame) else None


def row_of_pieces(pieces: list[str], columns: int) -> list[Value] | None:
    """Return the row of a tuple split at ``SEPARATOR``, the column count left off.

    Each piece is the length byte and the value of a text column, then the marks of the columns
    without a value that follow. The first piece has marks only. ``None`` if malformed.
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
    frame: bytes, position: int, relation: RelationMessage, values: ValueDecoder
) -> list[Value] | None:
    """Return the values of the last tuple of the frame, at ``position``; ``None`` if malformed.

    Raises the exceptions of ``read_tuple``.
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
    frame: bytes, position: int, relation: RelationMessage, values: ValueDecoder
) -> tuple[list[Value], int]:
    """Return the values of the tuple at ``position``, and the position after it.

    That position may lie beyond the frame: the caller compares. Raises ``IndexError``
    or ``struct.error`` if the tuple is cut off, malformed, or not of ``relation``.
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


def read_update(
    frame: bytes, position: int, relation: RelationMessage, values: ValueDecoder
) -> DecodedRow | None:
    """Return the tuples at ``position``, just after the relation's oid; ``None`` if malformed."""
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
    frame: bytes, position: int, relation: RelationMessage, values: ValueDecoder
) -> DecodedRow | None:
    """Return the old tuple of a Delete, in the form of ``read_update``; ``None`` if malformed."""
    try:
        old_kind, old, end = _read_old(frame, position, relation, values)
    except (IndexError, struct.error):
        return None
    return (old_kind, old, None) if end == len(frame) else None


def _read_old(
    frame: bytes, position: int, relation: RelationMessage, values: ValueDecoder
) -> tuple[OldKind, list[Value], int]:
    letter = frame[position]
    old, end = read_tuple(frame, position + 1, relation, values)
    if letter == ord("K"):
        leave_out_non_key(old, relation)
        return "K", old, end
    if letter == ord("O"):
        return "O", old, end
    raise IndexError


# Insert runs are unrolled: one function for each number of columns, generated on first use
# from the template below. A loop over eight columns takes a fifth more time than eight lines.

#: Wider tables use the loop for every row.
MOST_COLUMNS: Final = 100

#: ``(frames, index, head, relation, subxid, values, seq, changes)`` →
#: ``(index, size_bytes)``. The function decodes the inserts that begin with ``head``,
#: from ``frames[index]`` on, and appends them to ``changes``, numbered from ``seq + 1``.
#: It stops at the first frame that is another message or malformed, and returns the index
#: of that frame and the size of the decoded messages. ``head`` is a message from its tag
#: byte to its tuple's column count, which is that of ``relation``.
InsertRun: TypeAlias = Callable[
    [
        Sequence[bytes],
        int,
        bytes,
        RelationMessage,
        int | None,
        ValueDecoder,
        int,
        list[ChangeEvent],
    ],
    tuple[int, int],
]

# The template splits a row once. A text column of under 256 bytes begins with
# ``t``, three zero bytes, and its length. PostgreSQL's text holds no zero
# bytes, so splitting there gives one piece a column: length byte, then value.
# If every piece has the length that it states, reading column by column would
# find the same values. The marks of NULLs end the piece before them. Other rows, with
# long or binary values, are read column by column.
_TEMPLATE: Final = """
def insert_run(frames, index, head, relation, subxid, values, seq, changes):
    start, size, at = index, 0, TAG_AT + len(head)
    add, plain, encoding = changes.append, values.ascii_is_plain, values.encoding
    for index in range(start, len(frames)):
        frame = frames[index]
        if frame[TAG_AT:at] != head:
            break
        letter, lsn = frame_head(frame)
        if letter != XLOGDATA:
            break
        body = frame[at:]
        row = None
        try:
            if plain and body.isascii():
                pieces = body.decode().split(SEPARATOR)
                if len(pieces) == PIECES:
                    empty, {names} = pieces
                    if not empty and {checks}:
                        row = [{rows}]
                else:
                    row = row_of_pieces(pieces, PIECES - 1)
            elif plain:
                pieces = body.split(SEPARATOR_BYTES)
                if len(pieces) == PIECES:
                    empty, {names} = pieces
                    if not empty and {byte_checks}:
                        row = [{byte_rows}]
        except (IndexError, UnicodeError):
            pass
        if row is None:
            row = read_insert(frame, at - 2, relation, values)
            if row is None:
                break
        seq += 1
        size += len(body)
        add(new(ChangeEvent, (seq, lsn, subxid, relation, "I", None, None, row)))
    else:
        index += 1
    return index, size + (index - start) * len(head)
"""


@cache
def insert_run_of(columns: int) -> InsertRun:
    """Return the insert run for rows of ``columns`` columns."""
    if not 0 < columns <= MOST_COLUMNS:
        return insert_run_by_column
    names = [f"piece{number}" for number in range(columns)]
    source = _TEMPLATE.format(
        names=", ".join(names) + ",",
        checks=" and ".join(f"LENGTHS[len({name})] == {name}[0]" for name in names),
        rows=", ".join(f"{name}[1:]" for name in names),
        byte_checks=" and ".join(f"len({name}) == {name}[0] + 1" for name in names),
        byte_rows=", ".join(f"str({name}[1:], encoding)" for name in names),
    )
    scope: dict[str, Any] = {
        "ChangeEvent": ChangeEvent,
        # Index: the length of a piece. Value: the length byte that such a piece must begin with.
        "LENGTHS": ("", *map(chr, range(128))),
        "PIECES": columns + 1,
        "SEPARATOR": SEPARATOR,
        "SEPARATOR_BYTES": SEPARATOR.encode(),
        "TAG_AT": TAG_AT,
        "XLOGDATA": XLOGDATA,
        "frame_head": frame_head,
        "new": tuple.__new__,
        "read_insert": read_insert,
        "row_of_pieces": row_of_pieces,
    }
    exec(compile(source, f"<insert run of {columns} columns>", "exec"), scope)
    run: InsertRun = scope["insert_run"]
    return run


def insert_run_by_column(
    frames: Sequence[bytes],
    index: int,
    head: bytes,
    relation: RelationMessage,
    subxid: int | None,
    values: ValueDecoder,
    seq: int,
    changes: list[ChangeEvent],
) -> tuple[int, int]:
    """Decode one row as an ``InsertRun``, for tables with no columns or more than 100."""
    frame = frames[index]
    row = read_insert(frame, TAG_AT + len(head) - 2, relation, values)
    if row is None:
        return index, 0
    _, lsn = frame_head(frame)
    changes.append(ChangeEvent(seq + 1, lsn, subxid, relation, "I", None, None, row))
    return index + 1, len(frame) - TAG_AT
