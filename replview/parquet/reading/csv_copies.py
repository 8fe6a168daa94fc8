"""COPY … TO STDOUT as CSV, read by Arrow: whole rows at a time, in batches of even size."""

import select
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.csv as pc_csv
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn

from replview.parquet.reading.connecting import Connection

#: A batch is about so large as CSV, and has no more rows than this.
_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_ROWS = 32_768


def copied(
    connection: Connection,
    query: sql.Composable,
    fields: Mapping[str, pa.DataType],
    *,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The query's rows in order; one batch never holds much more than ``_BATCH_BYTES``.

    NULL is null and an empty text is empty: COPY quotes the latter. PostgreSQL sends each row as
    a message of its own, so that batches end where a row does.
    """
    most = batch_rows or _BATCH_ROWS
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query)
    waiting: list[memoryview] = []
    size = 0
    for row in _rows(connection.pgconn, statement.as_bytes(connection)):
        waiting.append(row)
        size += len(row)
        if size >= _BATCH_BYTES or len(waiting) >= most:
            yield _parsed(b"".join(waiting), fields)
            waiting, size = [], 0
    if waiting:
        yield _parsed(b"".join(waiting), fields)


def _rows(server: PGconn, statement: bytes) -> Iterator[memoryview]:
    """A COPY's messages. By libpq itself: psycopg's own loop takes longer than all the rest."""
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
            # Left early: what is still on its way is read and thrown away.
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
        # A block holds everything: a row longer than a block would be an error.
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
