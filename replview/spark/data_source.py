"""``spark.read.format("replview")`` reads the store as a data source of Spark.

Options (``options.py``; a table in docs/export-and-spark.md) choose what is read. With ``relation``
rows are typed by the versions of the table, without it they are records of all tables. A batch does
not include what is stored after ``load()``. Filters of Spark narrow the slice that is read if a
slice can express them. Connections are opened where a partition is read.

A stream (``stream_reader.py``) gives batches of whole transactions, in the order of history.

A reader has the store's password and could read everything. Hidden values are left out all the
same: columns that the store's rules mask are masked as on pages, unless ``masked`` says otherwise
(``none``, or tables with their columns as JSON). ``excluded`` names tables to leave out, and with
them logical messages, which belong to no table.
"""

import sys
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from decoder.scalars import LSN
from replview.parquet.archive.deleted import resolved
from replview.parquet.reading import StoreProblem, connect
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.slice_schemas import DAY, UNTYPED
from replview.parquet.slices import Slice, SliceTable
from replview.spark.options import Options, StorePartition, as_spark_has, planned, read_partition
from replview.spark.planned_files import PlannedFiles
from replview.spark.pushed_filters import keyed, narrowed, of_tables
from replview.spark.pyspark_versions import limits_batches
from replview.spark.stream_reader import StreamReader

#: Spark loads this module only if ``spark.sql.python.filterPushdown.enabled`` is set.
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class ReplviewDataSource(DataSource):
    """Changes of one table, typed, or of all tables as records."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__({})
        # Do not pass options to Spark, which may show them: they have the store's address.
        self._options = Options.parse(dict(options))
        self._slice: Slice | None = None
        self._table: SliceTable | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "replview"

    def schema(self) -> StructType:
        """Return the columns of the table and of the change, or those of a record."""
        if self._options.files is not None:
            return self._options.files.schema()
        self._look()
        schema = UNTYPED if self._table is None else self._table.arrow_schema().append(DAY)
        return from_arrow_schema(schema.remove_metadata(), prefer_timestamp_ntz=True)

    def _look(self) -> Slice:
        """Resolve the slice and the table, once."""
        if self._slice is None:
            with connect(self._options.dsn) as connection:
                part = self._options.shown(connection, resolved(connection, self._options.request))
                self._table = self._options.table(connection, part)
                self._slice = part
        return self._slice

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader, which accepts filters if Spark pushes them."""
        if self._options.files is not None:
            return FilesReader(self._options.dsn, self._options.files, schema)
        part, pushdown = self._look(), self._options.pushdown
        pushes = pushdown == "true" or (pushdown == "auto" and _PUSHING_WORKER in sys.modules)
        kind = PushingReader if pushes else SliceReader
        return kind(self._options, part, self._table, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a stream that continues by commit_seq.

        Raises ``StoreProblem`` for a limit that this PySpark ignores.
        """
        self._look()
        if limits_batches():
            from replview.spark.limited_stream_reader import LimitedStreamReader

            return LimitedStreamReader(self._options, self._table, schema)
        if self._options.max_rows is not None:
            raise StoreProblem(
                "PySpark 4.1 ignores maxRowsPerTrigger",
                "end each run at an offset by the option upTo, or use PySpark 4.2 or later",
            )
        return StreamReader(self._options, self._table, schema)


class SliceReader(DataSourceReader):
    """A reader of a slice, partition by partition."""

    def __init__(
        self, options: Options, part: Slice, table: SliceTable | None, schema: StructType
    ) -> None:
        self._options = options
        self._slice = part
        self._table = table
        self._schema = schema

    def partitions(self) -> Sequence[StorePartition]:
        """Return partitions with even numbers of changes."""
        with connect(self._options.dsn) as connection:
            return planned(connection, self._slice, self._table, self._options)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of history."""
        yield from read_partition(partition, self._options, self._schema)


class PushingReader(SliceReader):
    """A reader that narrows its slice by Spark's filters; Spark applies them again."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Narrow the slice and return all filters, since the slice stays a superset."""
        part = narrowed(self._slice, filters, typed=self._table is not None)
        with connect(self._options.dsn) as connection:
            if part.from_lsn is not None or part.to_lsn is not None:
                part = self._placed(connection, part)
            if self._table is None:
                part = of_tables(connection, part, filters)
            else:
                self._table = keyed(self._table, part, filters)
        self._slice = part
        yield from filters

    def _placed(self, connection: StoreConnection, part: Slice) -> Slice:
        """Return the slice between the places of its LSNs."""
        from_lsn, to_lsn = (
            None if lsn is None else LSN(lsn) for lsn in (part.from_lsn, part.to_lsn)
        )
        request = self._options.request
        request = replace(
            request,
            incarnation=part.incarnation,
            after_seq=part.after_seq,
            through_seq=part.through_seq,
            filter=replace(request.filter, from_lsn=from_lsn, to_lsn=to_lsn),
        )
        again = resolved(connection, request)
        return replace(part, after_seq=again.after_seq, through_seq=again.through_seq)


class FilesReader(DataSourceReader):
    """A reader of the files that an export planned, one partition per file."""

    def __init__(self, dsn: str, files: PlannedFiles, schema: StructType) -> None:
        self._dsn, self._files, self._schema = dsn, files, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each planned file."""
        return [InputPartition(number) for number in range(len(self._files.parts))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of history."""
        yield from as_spark_has(self._files.read(self._dsn, partition.value), self._schema)


def register(spark: Any) -> None:
    """Register ``format("replview")`` in a session."""
    spark.dataSource.register(ReplviewDataSource)
