"""``spark.read.format("replview")``: the store as a data source of Spark.

Options (``options.py``; a table in docs/export-and-spark.md) choose what is read; with ``relation``
rows are typed by the shapes that the table has had, without they are records of all tables. What is
stored after ``load()`` is not part of a batch. Filters of Spark narrow the slice that is read,
where a slice can say them. Connections are opened where a partition is read.

A stream gives batches of whole transactions, in the order of history. Its offset says how far each
incarnation of the slot was read: ``{"1": 5043}``. The record behind an offset does not change, so a
batch that is read again after a crash is the same batch.

Whoever reads so has the store's password, and could read all there is. What nobody is to see stays
unseen all the same: columns that the store's rules mask come as they come to pages, unless
``masked`` says otherwise (``none``, or tables with their columns as JSON); ``excluded`` names
tables that are left out, and messages with them, which are of no table.
"""

import datetime as dt
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from replview.parquet.reading import StoreProblem, connect, resolve
from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import conditions, counted, wanted_operations
from replview.parquet.reading.resolving import chosen
from replview.parquet.slice_schemas import UNTYPED
from replview.parquet.slices import OPERATIONS, Slice, SliceTable
from replview.spark.options import Options, StorePartition, planned, read_partition

#: Spark reads so only where ``spark.sql.python.filterPushdown.enabled`` is set.
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_LSN = "_commit_version"
#: Of untyped records: their place in history.
_PLACE = "commit_seq"
_MOST = (1 << 63) - 1
#: ``_change_type`` → the operations that give such rows.
_OPERATIONS = {
    "insert": ("insert", "snapshot"), "update_preimage": ("update",),
    "update_postimage": ("update",), "delete": ("delete",),
}  # fmt: skip


class ReplviewDataSource(DataSource):
    """Changes of one table, typed, or of all of them as records."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__({})
        # Not kept as Spark's own: they may be shown, and hold the store's address.
        self._options = Options.parse(dict(options))
        self._slice: Slice | None = None
        self._table: SliceTable | None = None

    @classmethod
    def name(cls) -> str:
        return "replview"

    def schema(self) -> StructType:
        """The table's columns and the change's, or those of a record."""
        self._look()
        schema = UNTYPED if self._table is None else self._table.arrow_schema()
        return from_arrow_schema(schema.remove_metadata(), prefer_timestamp_ntz=True)

    def _look(self) -> Slice:
        """Fix what is read, once."""
        if self._slice is None:
            with connect(self._options.dsn) as connection:
                part = self._options.shown(connection, resolve(connection, **self._options.asked))
                if self._options.relation:
                    self._table = chosen(connection, part, self._options.columns)
                self._slice = part
        return self._slice

    def reader(self, schema: StructType) -> DataSourceReader:
        """One that takes filters, where Spark gives them."""
        part, pushdown = self._look(), self._options.pushdown
        pushes = pushdown == "true" or (pushdown == "auto" and _PUSHING_WORKER in sys.modules)
        kind = PushingReader if pushes else Reader
        return kind(self._options, part, self._table, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Continues by commit_seq."""
        self._look()
        return StreamReader(self._options, self._table, schema)


class Reader(DataSourceReader):
    """Reads a slice, a partition at a time."""

    def __init__(
        self, options: Options, part: Slice, table: SliceTable | None, schema: StructType
    ) -> None:
        self._options = options
        self._slice = part
        self._table = table
        self._schema = schema

    def partitions(self) -> Sequence[StorePartition]:
        """Of even numbers of changes."""
        with connect(self._options.dsn) as connection:
            return planned(connection, self._slice, self._table, self._options)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Rows in the order of history."""
        yield from read_partition(
            partition, self._options.dsn, to_arrow_schema(self._schema, timezone="UTC")
        )


class PushingReader(Reader):
    """The same, reading no more than filters ask for; Spark applies them again."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Narrow the slice. Nothing is taken off Spark's hands: the slice stays a superset."""
        self._slice = narrowed(self._slice, filters, typed=self._table is not None)
        if self._slice.from_lsn is not None or self._slice.to_lsn is not None:
            words = ("from_lsn", "to_lsn", "after_seq", "through_seq", "incarnation")
            asked = self._options.asked | {word: getattr(self._slice, word) for word in words}
            with connect(self._options.dsn) as connection:
                again = resolve(connection, **asked)
            after, through = again.after_seq, again.through_seq
            self._slice = replace(self._slice, after_seq=after, through_seq=through)
        yield from filters


def register(spark: Any) -> None:
    """Make ``format("replview")`` known to a session."""
    spark.dataSource.register(ReplviewDataSource)


def narrowed(part: Slice, filters: Iterable[Filter], *, typed: bool) -> Slice:
    """A slice that holds every row for which all of these hold."""
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
        # One filter alone; and what has such a gid is taken along.
        free = isinstance(value, int) and not part.narrowed.id
        return _narrowed_by(part, id=str(value)) if free else part
    if name == ("_actor" if typed else "actor") and isinstance(each, IsNull):
        return _narrowed_by(part, no_actor=True)
    values = value if isinstance(each, In) else (value,) if isinstance(each, EqualTo) else ()
    texts = [text for text in values or () if isinstance(text, str)]
    if not texts:
        return part
    if name == ("_actor" if typed else "actor"):
        chosen = [text for text in texts if not part.actors or text in part.actors]
        return replace(part, actors=tuple(chosen)) if chosen else part
    if name == ("_change_type" if typed else "op"):
        known = _OPERATIONS if typed else {word: (word,) for word in OPERATIONS}
        wanted = {word for text in texts for word in known.get(text, ())}
        of = [word for word in part.operations or OPERATIONS if word in wanted]
        return replace(part, operations=tuple(of)) if of else part
    return part


def _narrowed_by(part: Slice, **more: Any) -> Slice:
    return replace(part, narrowed=replace(part.narrowed, **more))


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


Offset = dict[str, int]

_INCARNATIONS = """
    SELECT i.number, coalesce((SELECT max(t.commit_seq) FROM transaction t
                               WHERE t.incarnation_id = i.id), 0)
    FROM slot_incarnation i JOIN slot_incarnation mine ON mine.slot_id = i.slot_id
    WHERE mine.id = %s ORDER BY i.number
"""
# The last transaction with which no more than so many changes are taken; at least the first.
_UPTO = """
    SELECT max(commit_seq) FROM (
        SELECT commit_seq, changes, sum(changes) OVER (ORDER BY commit_seq) AS upto
        FROM (SELECT t.commit_seq, {changes} AS changes FROM transaction t WHERE {where}) AS found
    ) AS counted WHERE upto <= {most} OR upto = changes
"""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, table: SliceTable | None, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema
        #: With AvailableNow: nothing beyond this.
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As ``maxRowsPerTrigger`` says."""
        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is stored now is all that this run reads."""
        with connect(self._options.dsn) as connection:
            self._target = self._stored(connection)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """As far as the limit lets one batch go."""
        with connect(self._options.dsn) as connection:
            # Incarnations that are gone stay told.
            reached = dict(start)
            for incarnation, seq in self._stored(connection).items():
                if self._target is not None:
                    seq = min(seq, self._target.get(incarnation, 0))
                if seq := max(start.get(incarnation, 0), seq):
                    reached[incarnation] = seq
            if not isinstance(limit, ReadMaxRows):
                return reached
            return self._limited(connection, start, reached, limit.max_rows)

    def reportLatestOffset(self) -> Offset:
        with connect(self._options.dsn) as connection:
            return {number: seq for number, seq in self._stored(connection).items() if seq}

    def partitions(self, start: Offset, end: Offset) -> Sequence[StorePartition]:
        """The transactions between two offsets, incarnation after incarnation."""
        found: list[StorePartition] = []
        with connect(self._options.dsn) as connection:
            for incarnation, after, through in _steps(start, end):
                part = self._part(connection, incarnation, after, through)
                self._check_shape(connection, part)
                found += planned(connection, part, self._table, self._options)
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Rows in the order of history."""
        yield from read_partition(
            partition, self._options.dsn, to_arrow_schema(self._schema, timezone="UTC")
        )

    def _part(self, connection: Connection, incarnation: int, after: int, through: int) -> Slice:
        asked = {**self._options.asked, "incarnation": incarnation}
        found = resolve(connection, **asked, after_seq=after, through_seq=through)
        return self._options.shown(connection, found)

    def _stored(self, connection: Connection) -> Offset:
        """How far each incarnation goes, or the one that was chosen."""
        part = resolve(connection, **self._options.asked)
        only = self._options.asked["incarnation"]
        rows = connection.execute(_INCARNATIONS, [part.incarnation_id]).fetchall()
        return {str(number): int(seq) for number, seq in rows if only in (None, number)}

    def _limited(self, connection: Connection, start: Offset, end: Offset, most: int) -> Offset:
        reached = dict(start)
        relation = None if self._table is None else self._table.relation_id
        relations = None if relation is None else [relation]
        for incarnation, after, through in _steps(start, end):
            part = self._part(connection, incarnation, after, through)
            operations = wanted_operations(part, rows=relation is not None)
            changes = counted(operations, relation, whose=part.whose)
            where = conditions(part, None, relations)
            query = sql.SQL(_UPTO).format(changes=changes, where=where, most=most)
            [(last,)] = connection.execute(query).fetchall()
            if last is None:
                # Nothing for us in it.
                reached[str(incarnation)] = through
                continue
            rest = self._part(connection, incarnation, last, through)
            beyond = sql.SQL("SELECT EXISTS (SELECT FROM transaction t WHERE {})")
            query = beyond.format(conditions(rest, None, relations))
            [(more,)] = connection.execute(query).fetchall()
            reached[str(incarnation)] = last if more else through
            break
        return reached

    def _check_shape(self, connection: Connection, part: Slice) -> None:
        """A shape that the stream did not know when it began would lose its new columns."""
        if self._table is None:
            return
        now = chosen(connection, part, self._options.columns)
        if now.columns != self._table.columns:
            raise StoreProblem(
                f"{now.name} has changed its columns since the stream began",
                "start the query again: it goes on where it was, with the new columns",
            )
        self._table = now


def _steps(start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Incarnation, after, through; the older incarnation first."""
    return [
        (int(incarnation), start.get(incarnation, 0), end[incarnation])
        for incarnation in sorted(end, key=int)
        if end[incarnation] > start.get(incarnation, 0)
    ]
