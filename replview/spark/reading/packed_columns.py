"""A group's rows as one value a column: put together by the server, taken apart by Arrow.

COPY sends a message a row, quoted there, parsed here, and touched by Python in between: all that
takes longer than finding the rows. The server's memory holds a group, so that groups are small
(``transactions.Group.packs``), and it works on one while the one before it is converted.

Texts are parted by U+001F, which no such text has; the row itself comes as its JSON, a line each
(``packed_images``).
"""

import select
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn

from replview.spark.reading.connecting import Connection
from replview.spark.reading.csv_copies import copied
from replview.spark.reading.packed_images import PackedImages
from replview.spark.reading.transactions import Group
from replview.spark.reading.typed_query import written_once

_UNIT = b"\x1f"
#: How a field travels: of fixed width, or as plain text.
_NUMBERS = {
    pa.int64(): ("string_agg(int8send(coalesce({}, 0)), ''::bytea)", "q"),
    pa.int32(): ("string_agg(int4send({}), ''::bytea)", "i"),
    pa.int8(): ("string_agg(charsend({}::\"char\"), ''::bytea)", "b"),
}
_PLAIN = "string_agg({}::text, chr(31))"
_IMAGES = sql.SQL("string_agg(coalesce(image::text, '{}'), chr(10))")

Query = Callable[[Group], sql.Composable]


@dataclass(frozen=True, slots=True)
class Packing:
    """What the server packs: a query of rows with these fields and ``image``, the row as JSON."""

    query: Query
    fields: Mapping[str, pa.DataType]
    images: PackedImages


def group_batches(
    connection: Connection,
    groups: Iterator[Group],
    packing: Packing | None,
    query: Query,
    fields: Mapping[str, pa.DataType],
) -> Iterator[tuple[Group, pa.RecordBatch]]:
    """The rows of each group, in order, as batches of ``fields``: what ``query`` gives, which is
    asked for where a group cannot be packed.
    """
    server = connection.pgconn
    head = written_once(connection, _packed(packing.fields) if packing else sql.SQL(""))

    def ask(group: Group | None) -> bool:
        if packing is None or group is None or not group.packs:
            return False
        whole = sql.SQL("SELECT {} FROM ({}) AS packed").format(head, packing.query(group))
        _send(server, whole.as_bytes(connection))
        return True

    asked = False
    try:
        group = next(groups, None)
        while group is not None:
            batch = None
            if packing is not None and (asked or ask(group)):
                values = _answer(server)
                asked = False
                batch = _unpacked(values, packing, fields)
            if batch is None:
                for each in copied(connection, query(group), fields):
                    yield group, each
                group = next(groups, None)
                continue
            following = next(groups, None)
            asked = ask(following)
            if batch.num_rows:
                yield group, batch
            group = following
    finally:
        if asked:
            server.get_cancel().cancel()
            while server.get_result() is not None:
                pass


def _packed(fields: Mapping[str, pa.DataType]) -> sql.Composed:
    """How many rows, each field as one value, and the rows."""
    packed = [
        sql.SQL(_NUMBERS[arrow][0] if arrow in _NUMBERS else _PLAIN).format(sql.Identifier(name))
        for name, arrow in fields.items()
    ]
    return sql.SQL(", ").join([sql.SQL("count(*)"), *packed, _IMAGES])


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


def _unpacked(
    values: Sequence[bytes | None], packing: Packing, fields: Mapping[str, pa.DataType]
) -> pa.RecordBatch | None:
    """The rows; None where they are none that can be packed."""
    count, *packed, lines = values
    rows = int.from_bytes(count or b"", "big")
    if not rows:
        return pa.RecordBatch.from_pylist([], pa.schema(list(fields.items())))
    found = {
        name: _numbers(data or b"", arrow, rows) if arrow in _NUMBERS else _texts(data or b"")
        for data, (name, arrow) in zip(packed, packing.fields.items(), strict=True)
    }
    columns = packing.images.unpacked(lines or b"", found["version_id"])
    if columns is None:
        return None
    found |= columns
    return pa.RecordBatch.from_arrays([found[name] for name in fields], names=list(fields))


def _numbers(data: bytes, arrow: pa.DataType, rows: int) -> pa.Array:
    numbers = array(_NUMBERS[arrow][1], data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return pa.Array.from_buffers(arrow, rows, [None, pa.py_buffer(numbers)])


def _texts(data: bytes) -> Any:
    return pc.split_pattern(pa.array([data], pa.binary()), _UNIT).values.cast(pa.string())
