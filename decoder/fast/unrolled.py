"""Insert runs, unrolled: one function for each number of columns, written on first use.

A loop over eight columns costs a fifth more than eight lines do, so the lines
are generated, from the template below, which is the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from decoder.events import Change
from decoder.fast.hot import SEPARATOR, TAG_AT, XLOGDATA, frame_head, read_insert, row_of_pieces
from decoder.messages import Relation
from decoder.values import ValueDecoder

#: Tables wider than this take the loop for every row.
MOST_COLUMNS: Final = 100

#: ``(frames, index, head, relation, subxid, values, seq, changes)`` →
#: ``(index, size_bytes)``: decode inserts that all begin with ``head``, from
#: ``frames[index]`` on; append them to ``changes``, numbered from ``seq + 1``;
#: stop at the first frame that is another message or is odd, and say which, and
#: how long the messages were together. ``head`` is a message from its tag byte
#: to its tuple's column count, which is that of ``relation``.
InsertRun: TypeAlias = Callable[
    [
        Sequence[bytes],
        int,
        bytes,
        Relation,
        int | None,
        ValueDecoder,
        int,
        list[Change],
    ],
    tuple[int, int],
]

# How a row is read at one stroke. A text column of under 256 bytes begins with
# ``t``, three zero bytes, and its length. PostgreSQL's text holds no zero
# bytes, so splitting there gives one piece a column: length byte, then value.
# Where every piece is as long as it claims, reading column by column would have
# found the same values. Nulls stick to the piece before them. Everything else is
# read column by column: long values, binary ones.
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
        add(new(Change, (seq, lsn, subxid, relation, "I", None, None, row)))
    else:
        index += 1
    return index, size + (index - start) * len(head)
"""


@cache
def insert_run_of(columns: int) -> InsertRun:
    """The insert run for rows of ``columns`` columns."""
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
        "Change": Change,
        # By the length of a piece, its first character: the value's length.
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
    relation: Relation,
    subxid: int | None,
    values: ValueDecoder,
    seq: int,
    changes: list[Change],
) -> tuple[int, int]:
    """An ``InsertRun`` of one row, for tables with very many columns or none."""
    frame = frames[index]
    row = read_insert(frame, TAG_AT + len(head) - 2, relation, values)
    if row is None:
        return index, 0
    _, lsn = frame_head(frame)
    changes.append(Change(seq + 1, lsn, subxid, relation, "I", None, None, row))
    return index + 1, len(frame) - TAG_AT
