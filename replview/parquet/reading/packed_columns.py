"""A group's rows in a single row of packed columns (``packed_values``).

Groups are small (``transactions.Group.packs``), and the server works on one while the one before it
is converted. Two queries give the same: of *cells*, where each value is taken out of the row's JSON
as it is packed and says itself that it was not sent; and of *rows*, which also tells marks from
texts that look so. The first is asked as long as nothing looks like a mark.
"""

import select
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn

from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.csv_copies import copied
from replview.parquet.reading.packed_values import Fields, fit, packing, unpacked
from replview.parquet.reading.row_images import written_once
from replview.parquet.reading.transactions import Group
from replview.parquet.reading.typed_cells import Cells

#: The number of rows, and the columns.
_Values = tuple[int, Sequence[bytes | None]]


def group_batches(
    connection: Connection,
    groups: Iterator[Group],
    query: Callable[[Group], sql.Composable],
    fields: Fields,
    cells: Cells | None,
) -> Iterator[tuple[Group, pa.RecordBatch]]:
    """The rows of each group's query, whose columns are ``fields``, in order."""
    server = connection.pgconn
    packed = written_once(connection, packing(fields))

    def ask(group: Group) -> None:
        whole = (
            sql.SQL("SELECT {} FROM ({}) AS packed").format(packed, query(group))
            if cells is None
            else cells.query(group)
        )
        _send(server, whole.as_bytes(connection))

    asked = False
    try:
        group = next(groups, None)
        while group is not None:
            batch = None
            if group.packs:
                if not asked:
                    ask(group)
                rows, values = _answer(server)
                if cells is not None and not cells.suffice(rows, values):
                    cells = None
                    ask(group)
                    rows, values = _answer(server)
                asked = False
                if cells is not None:
                    batch = partial(cells.batch, rows, values)
                elif fit(values, fields, rows):
                    batch = partial(_batch, rows, values, fields)
            if batch is None:
                plain = {name: each.arrow for name, each in fields.items()}
                for some in copied(connection, query(group), plain):
                    yield group, some
                group = next(groups, None)
                continue
            following = next(groups, None)
            if following is not None and following.packs:
                ask(following)
                asked = True
            if rows:
                yield group, batch()
            group = following
    finally:
        if asked:
            server.get_cancel().cancel()
            while server.get_result() is not None:
                pass


def _batch(rows: int, values: Sequence[bytes | None], fields: Fields) -> pa.RecordBatch:
    arrays = unpacked(values, fields, rows)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _send(server: PGconn, statement: bytes) -> None:
    server.send_query_params(statement, None, result_format=Format.BINARY)
    while server.flush():
        select.select([], [server.socket], [])


def _answer(server: PGconn) -> _Values:
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
    return int.from_bytes(found[0] or b"", "big"), found[1:]
