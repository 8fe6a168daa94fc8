"""Read a query's rows as Arrow batches: a group of transactions as one packed row, or by COPY.

Groups are small (``transactions.TransactionGroup.packs``), and the server works on the next group
while this process converts the current one. Two queries return the same rows. The query of *cells*
extracts each value from the row's JSON as it packs it, and marks values that were not sent. The
query of *rows* also distinguishes marks from texts that look like marks. The query of cells is used
until a value looks like a mark.
"""

import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.csv as pc_csv
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn

from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.packed_values import Fields, fit, packing, unpacked
from replview.parquet.reading.row_images import written_once
from replview.parquet.reading.transactions import TransactionGroup
from replview.parquet.reading.typed_query import Cells

#: The approximate size of a batch as CSV, and the most rows that it has.
_BATCH_BYTES = 8 * 1024 * 1024
BATCH_ROWS = 32_768


def copied(
    connection: StoreConnection, query: sql.Composable, fields: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    """Yield the query's rows in order; no batch holds much more than ``_BATCH_BYTES``.

    NULL is null and an empty text is empty: COPY quotes the latter. PostgreSQL sends each row as
    a message of its own, so that batches end where a row does.
    """
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query)
    waiting: list[memoryview] = []
    size = 0
    for row in _rows(connection.pgconn, statement.as_bytes(connection)):
        waiting.append(row)
        size += len(row)
        if size >= _BATCH_BYTES or len(waiting) >= BATCH_ROWS:
            yield _parsed(b"".join(waiting), fields)
            waiting, size = [], 0
    if waiting:
        yield _parsed(b"".join(waiting), fields)


def _rows(server: PGconn, statement: bytes) -> Iterator[memoryview]:
    """Yield a COPY's messages by libpq's own calls: psycopg's loop takes longer than all else."""
    started = server.exec_(statement)
    if started.status != ExecStatus.COPY_OUT:
        raise error_from_result(started, encoding="utf-8")
    ended = False
    try:
        while True:
            length, data = server.get_copy_data(1)
            if length > 0:
                yield data
            elif length == 0:
                select.select([server.socket], [], [])
                server.consume_input()
            else:
                ended = True
                break
    finally:
        if not ended:
            # The caller stopped early: cancel the COPY, and discard rows that were already sent.
            server.get_cancel().cancel()
            while server.get_copy_data(0)[0] > 0:
                pass
        failed = None
        while (result := server.get_result()) is not None:
            if result.status == ExecStatus.FATAL_ERROR:
                failed = result
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")


def _parsed(data: bytes, fields: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    table = pc_csv.read_csv(
        pa.py_buffer(data),
        # One block holds all the data: a row longer than a block would be an error.
        read_options=pc_csv.ReadOptions(
            column_names=list(fields), block_size=len(data) + 1, use_threads=False
        ),
        parse_options=pc_csv.ParseOptions(newlines_in_values=True),
        convert_options=pc_csv.ConvertOptions(
            column_types=dict(fields),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    [batch] = table.combine_chunks().to_batches()
    return batch


def group_batches(
    connection: StoreConnection,
    groups: Iterator[TransactionGroup],
    query: Callable[[TransactionGroup], sql.Composable],
    fields: Fields,
    cells: Cells | None,
) -> Iterator[tuple[TransactionGroup, pa.RecordBatch]]:
    """Yield the rows of each group's query, whose columns are ``fields``, in order."""
    packed = _PackedGroups(connection, query, fields, cells)
    try:
        group = next(groups, None)
        while group is not None:
            rows, batch = packed.read(group) if group.packs else (0, None)
            if batch is None:
                plain = {name: each.arrow for name, each in fields.items()}
                for some in copied(connection, query(group), plain):
                    yield group, some
                group = next(groups, None)
                continue
            following = next(groups, None)
            if following is not None and following.packs:
                packed.ask_ahead(following)
            if rows:
                yield group, batch()
            group = following
    finally:
        packed.close()


class _PackedGroups:
    """A reader of packed groups, which can send the next group's query in advance."""

    def __init__(
        self,
        connection: StoreConnection,
        query: Callable[[TransactionGroup], sql.Composable],
        fields: Fields,
        cells: Cells | None,
    ) -> None:
        self._connection = connection
        self._server = connection.pgconn
        self._query = query
        self._fields = fields
        #: None once a value has looked like a mark.
        self._cells = cells
        self._packed = written_once(connection, packing(fields))
        #: True when the query of the group that is read next was sent already.
        self._asked = False

    def ask_ahead(self, group: TransactionGroup) -> None:
        """Send the query of the group that ``read`` is called with next."""
        self._ask(group)
        self._asked = True

    def read(self, group: TransactionGroup) -> tuple[int, Callable[[], pa.RecordBatch] | None]:
        """Return the number of rows and their converter; None where the rows have to be copied."""
        if not self._asked:
            self._ask(group)
        rows, values = _answer(self._server)
        if self._cells is not None and not self._cells.suffice(rows, values):
            self._cells = None
            self._ask(group)
            rows, values = _answer(self._server)
        self._asked = False
        if self._cells is not None:
            return rows, partial(self._cells.batch, rows, values)
        if fit(values, self._fields, rows):
            return rows, lambda: pa.record_batch(unpacked(values, self._fields, rows))
        return rows, None

    def close(self) -> None:
        """Cancel a query that was sent in advance and not read."""
        if self._asked:
            self._server.get_cancel().cancel()
            while self._server.get_result() is not None:
                pass

    def _ask(self, group: TransactionGroup) -> None:
        whole = (
            sql.SQL("SELECT {} FROM ({}) AS packed").format(self._packed, self._query(group))
            if self._cells is None
            else self._cells.query(group)
        )
        _send(self._server, whole.as_bytes(self._connection))


def _send(server: PGconn, statement: bytes) -> None:
    server.send_query_params(statement, None, result_format=Format.BINARY)
    while server.flush():
        select.select([], [server.socket], [])


def _answer(server: PGconn) -> tuple[int, Sequence[bytes | None]]:
    """Return the number of rows, and the columns.

    libpq holds Python's lock while it waits, so ``get_result`` is called only when it need not.
    """
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
