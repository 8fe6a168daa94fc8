"""Read the record as a stream of whole transactions, in the order of history.

The record before an offset does not change, so a batch that is repeated after a crash has the same
rows. PySpark 4.1 reads up to the latest offset; later versions limit a batch
(``limited_stream_reader.py``).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from replview.parquet.reading import StoreProblem, connect
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.slices import Slice, SliceTable
from replview.spark.options import Options, StorePartition, planned, read_partition
from replview.spark.stream_offsets import Offset, slice_between, steps, stored_offset


class StreamReader(DataSourceStreamReader):
    """A stream of the record."""

    def __init__(self, options: Options, table: SliceTable | None, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema

    def initialOffset(self) -> Offset:
        """Return the offset that ``startingOffsets`` says, or the one before all transactions."""
        return dict(self._options.starting)

    def latestOffset(self) -> Offset:
        """Return the offset of what is stored now."""
        with connect(self._options.dsn) as connection:
            return stored_offset(connection, self._options)

    def partitions(self, start: Offset, end: Offset) -> Sequence[StorePartition]:
        """Return the partitions between two offsets, by incarnation."""
        _refuse_earlier(start, end)
        found: list[StorePartition] = []
        with connect(self._options.dsn) as connection:
            for incarnation, after, through in steps(start, end):
                part = slice_between(connection, self._options, incarnation, after, through)
                self._check_shape(connection, part)
                found += planned(connection, part, self._table, self._options)
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of history."""
        yield from read_partition(partition, self._options, self._schema)

    def _check_shape(self, connection: StoreConnection, part: Slice) -> None:
        """Raise ``StoreProblem`` if columns changed, since new ones would be lost."""
        now = self._options.table(connection, part)
        if now is not None and self._table is not None and now.columns != self._table.columns:
            raise StoreProblem(
                f"{now.name} has changed its columns since the stream began",
                "start the query again: it goes on where it was, with the new columns",
            )
        self._table = now


def _refuse_earlier(start: Offset, end: Offset) -> None:
    """Raise ``StoreProblem`` if the batch ends before it starts.

    Spark would continue from that end, and read rows a second time.
    """
    for incarnation, reached in start.items():
        if end.get(incarnation, reached) < reached:
            raise StoreProblem(
                f"the stream has read incarnation {incarnation} up to commit_seq {reached}, and "
                f"is to end at {end[incarnation]}",
                "remove the newest file of the checkpoint's folder offsets, and give a later upTo",
            )
