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

import datetime as dt
import sys
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from decoder.scalars import LSN
from replview.parquet.archive.deleted import resolved
from replview.parquet.reading import connect
from replview.parquet.slice_schemas import DAY, UNTYPED
from replview.parquet.slices import OPERATIONS, Slice, SliceTable
from replview.spark.options import Options, StorePartition, as_spark_has, planned, read_partition
from replview.spark.planned_files import PlannedFiles
from replview.spark.stream_reader import stream_reader
from replview.store.read.transactions.filter_values import UNKNOWN_ACTOR

#: Spark loads this module only if ``spark.sql.python.filterPushdown.enabled`` is set.
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_LSN = "_commit_version"
#: Column of untyped records with their place in history.
_PLACE = "commit_seq"
_MOST = (1 << 63) - 1
#: Operations that produce rows of a ``_change_type``.
_OPERATIONS = {
    "insert": ("insert", "snapshot"), "update_preimage": ("update",),
    "update_postimage": ("update",), "delete": ("delete",), "truncate": ("truncate",),
}  # fmt: skip


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
        """Return a stream that continues by commit_seq."""
        self._look()
        return stream_reader(self._options, self._table, schema)


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
        if part.from_lsn is not None or part.to_lsn is not None:
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
            with connect(self._options.dsn) as connection:
                again = resolved(connection, request)
            part = replace(part, after_seq=again.after_seq, through_seq=again.through_seq)
        self._slice = part
        yield from filters


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


def narrowed(part: Slice, filters: Iterable[Filter], *, typed: bool) -> Slice:
    """Return a slice with every row that satisfies all filters."""
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) == 1:
            part = _narrowed(part, each, str(attribute[0]).lower(), typed=typed)
    return part


def _narrowed(part: Slice, each: Filter, name: str, *, typed: bool) -> Slice:
    value = getattr(each, "value", None)
    if name == _LSN and isinstance(value, int):
        return _by_lsn(part, each, value)
    if name == ("_commit_timestamp" if typed else "commit_time"):
        return _by_time(part, each, value)
    if name == _PLACE and isinstance(value, int) and not typed:
        return _by_place(part, each, value)
    if name == ("_xid" if typed else "xid") and isinstance(each, EqualTo):
        # Only one filter fits; transactions with such a gid are included.
        free = isinstance(value, int) and not part.narrowed.filter.id
        return _narrowed_by(part, id=str(value)) if free else part
    if name == ("_actor" if typed else "actor") and isinstance(each, IsNull):
        return _narrowed_by(part, actor=UNKNOWN_ACTOR)
    values = value if isinstance(each, In) else (value,) if isinstance(each, EqualTo) else ()
    texts = [text for text in values or () if isinstance(text, str)]
    if not texts:
        return part
    if name == ("_actor" if typed else "actor"):
        if UNKNOWN_ACTOR in texts:
            # Here it is a name; in a slice it stands for no name.
            return part
        chosen = [text for text in texts if not part.actors or text in part.actors]
        return replace(part, actors=tuple(chosen)) if chosen else part
    if name == ("_change_type" if typed else "op"):
        known = _OPERATIONS if typed else {word: (word,) for word in OPERATIONS}
        wanted = {word for text in texts for word in known.get(text, ())}
        of = [word for word in part.operations or OPERATIONS if word in wanted]
        return replace(part, operations=tuple(of)) if of else part
    return part


def _narrowed_by(part: Slice, **more: Any) -> Slice:
    filter_ = replace(part.narrowed.filter, **more)
    return replace(part, narrowed=replace(part.narrowed, filter=filter_))


def _by_place(part: Slice, each: Filter, value: int) -> Slice:
    after, through = part.after_seq, part.through_seq
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        after = max(after, min(value - (not isinstance(each, GreaterThan)), through))
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        through = max(after, min(through, value - isinstance(each, LessThan)))
    return replace(part, after_seq=after, through_seq=through)


def _by_lsn(part: Slice, each: Filter, value: int) -> Slice:
    low, high = part.from_lsn, part.to_lsn
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        least = value + isinstance(each, GreaterThan)
        low = least if low is None else max(low, least)
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        most = value - isinstance(each, LessThan)
        high = most if high is None else min(high, most)
    low, high = (None if each is None else min(max(each, 0), _MOST) for each in (low, high))
    return replace(part, from_lsn=low, to_lsn=high)


def _by_time(part: Slice, each: Filter, value: object) -> Slice:
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return part
    since, until = part.since, part.until
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        since = value if since is None else max(since, value)
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        try:
            after = value + dt.timedelta(microseconds=1)
        except OverflowError:
            return part
        until = after if until is None else min(until, after)
    return replace(part, since=since, until=until)
