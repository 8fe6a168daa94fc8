"""A group's rows as one value a column: put together by the server, taken apart by Arrow.

COPY sends a message a row, quoted there, parsed here, and touched by Python in between: all that
takes longer than finding the rows. The server's memory holds a group, so that groups are small
(``transactions.Group.packs``), and it works on one while the one before it is converted.

Numbers and times are parted by U+001F, which no such text has. A text may have any character: its
bytes are parted by zero, which no text has, and 0xFF, which UTF-8 never has, is null.
"""

import select
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn

from replview.spark.reading.connecting import Connection
from replview.spark.reading.csv_copies import copied
from replview.spark.reading.transactions import Group
from replview.spark.reading.typed_query import written_once

_UNIT, _NULL = b"\x1f", b"\x1e"
_TEXT_UNIT, _TEXT_NULL = b"\0", b"\xff"
#: How a field travels: of fixed width, as plain text, or as any text.
_NUMBERS = {
    pa.int64(): ("string_agg(int8send(coalesce({}, 0)), ''::bytea)", "q"),
    pa.int32(): ("string_agg(int4send({}), ''::bytea)", "i"),
    pa.int8(): ("string_agg(charsend({}::\"char\"), ''::bytea)", "b"),
}
_PLAIN = "string_agg(coalesce({}::text, chr(30)), chr(31))"
_TEXT = "string_agg(coalesce(textsend({}), '\\xff'::bytea), '\\x00'::bytea)"

#: Columns by name: their type here, and whether their text is plain.
Fields = Mapping[str, tuple[pa.DataType, bool]]


def group_batches(
    connection: Connection,
    groups: Iterator[Group],
    query: Callable[[Group], sql.Composable],
    fields: Fields,
) -> Iterator[tuple[Group, pa.RecordBatch]]:
    """The rows of each group's query, whose columns are ``fields``, in order."""
    server = connection.pgconn
    plain_types = {name: arrow for name, (arrow, _) in fields.items()}
    packing = written_once(connection, _packing(fields))

    def ask(group: Group) -> None:
        whole = sql.SQL("SELECT count(*), {} FROM ({}) AS packed").format(packing, query(group))
        _send(server, whole.as_bytes(connection))

    asked = False
    try:
        group = next(groups, None)
        while group is not None:
            values: Sequence[bytes | None] | None = None
            if group.packs:
                if not asked:
                    ask(group)
                values = _answer(server)
                asked = False
            if values is None or not _adds_up(values, fields):
                for batch in copied(connection, query(group), plain_types):
                    yield group, batch
                group = next(groups, None)
                continue
            following = next(groups, None)
            if following is not None and following.packs:
                ask(following)
                asked = True
            if _count(values):
                yield group, _unpacked(values, fields)
            group = following
    finally:
        if asked:
            server.get_cancel().cancel()
            while server.get_result() is not None:
                pass


def _packing(fields: Fields) -> sql.Composed:
    """Each column as one value."""
    return sql.SQL(", ").join(
        sql.SQL(_PLAIN if plain else _NUMBERS[arrow][0] if arrow in _NUMBERS else _TEXT).format(
            sql.Identifier(name)
        )
        for name, (arrow, plain) in fields.items()
    )


def _send(server: PGconn, statement: bytes) -> None:
    server.send_query_params(statement, None, result_format=Format.BINARY)
    while server.flush():
        select.select([], [server.socket], [])


def _answer(server: PGconn) -> list[bytes | None]:
    """The one row. libpq would hold Python's lock while it waits: it is asked when it need not."""
    found: list[bytes | None] = []
    failed = None
    while True:
        while server.is_busy():
            select.select([server.socket], [], [])
            server.consume_input()
        result = server.get_result()
        if result is None:
            break
        if result.status == ExecStatus.TUPLES_OK:
            found = [result.get_value(0, place) for place in range(result.nfields)]
        else:
            failed = result
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")
    return found


def _count(values: Sequence[bytes | None]) -> int:
    return int.from_bytes(values[0] or b"", "big")


def _adds_up(values: Sequence[bytes | None], fields: Fields) -> bool:
    """Whether plain texts were: a source may send anything as a number."""
    most = _count(values) - 1
    return most < 0 or all(
        data is not None and data.count(_UNIT) == most
        for data, (_, plain) in zip(values[1:], fields.values(), strict=True)
        if plain
    )


def _unpacked(values: Sequence[bytes | None], fields: Fields) -> pa.RecordBatch:
    rows = _count(values)
    arrays = [
        _texts(data or b"", _UNIT, _NULL)
        if plain
        else _numbers(data or b"", arrow, rows)
        if arrow in _NUMBERS
        else _texts(data or b"", _TEXT_UNIT, _TEXT_NULL)
        for data, (arrow, plain) in zip(values[1:], fields.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))


def _numbers(data: bytes, arrow: pa.DataType, rows: int) -> pa.Array:
    numbers = array(_NUMBERS[arrow][1], data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return pa.Array.from_buffers(arrow, rows, [None, pa.py_buffer(numbers)])


def _texts(data: bytes, unit: bytes, null: bytes) -> Any:
    parts = pc.split_pattern(pa.array([data], pa.binary()), unit).values
    if null in data:
        parts = pc.if_else(pc.equal(parts, null), pa.scalar(None, pa.binary()), parts)
    return parts.cast(pa.string())
