"""``spark.readStream.format("replview")``: batches of whole transactions, in the order of history.

An offset says how far each incarnation of the slot was read: ``{"1": 5043}``. The record behind an
offset does not change, so a batch that is read again after a crash is the same batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
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
from replview.parquet.reading.tables import chosen
from replview.parquet.slices import Slice, SliceTable
from replview.spark.options import Options, StorePartition, planned, read_partition

Offset = dict[str, int]

_LIVES = """
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
    """Reads on from an offset."""

    def __init__(self, options: Options, table: SliceTable | None, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema
        #: With AvailableNow: nothing beyond this.
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:
        """The beginning of the record."""
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
            stored = self._stored(connection)
            if self._target is not None:
                stored = {
                    incarnation: min(seq, self._target.get(incarnation, 0))
                    for incarnation, seq in stored.items()
                }
            reached = {
                incarnation: max(start.get(incarnation, 0), seq)
                for incarnation, seq in stored.items()
            }
            # Incarnations that are gone stay told.
            reached = {**start, **{incarnation: seq for incarnation, seq in reached.items() if seq}}
            if not isinstance(limit, ReadMaxRows):
                return reached
            return self._limited(connection, start, reached, limit.max_rows)

    def reportLatestOffset(self) -> Offset:
        """For the query's status."""
        with connect(self._options.dsn) as connection:
            return {
                incarnation: seq for incarnation, seq in self._stored(connection).items() if seq
            }

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
        rows = connection.execute(_LIVES, [part.incarnation_id]).fetchall()
        return {str(number): int(seq) for number, seq in rows if only in (None, number)}

    def _limited(
        self, connection: Connection, start: Offset, end: Offset, most: int
    ) -> Offset:  # fmt: skip
        reached = dict(start)
        for incarnation, after, through in _steps(start, end):
            part = self._part(connection, incarnation, after, through)
            relations = None if self._table is None else [self._table.relation_id]
            query = sql.SQL(_UPTO).format(
                changes=counted(
                    wanted_operations(part, rows=self._table is not None),
                    None if self._table is None else self._table.relation_id,
                ),
                where=conditions(part, None, relations),
                most=most,
            )
            row = connection.execute(query).fetchone()
            if row is None or row[0] is None:
                # Nothing for us in it.
                reached[str(incarnation)] = through
                continue
            rest = self._part(connection, incarnation, row[0], through)
            beyond = sql.SQL("SELECT EXISTS (SELECT FROM transaction t WHERE {})")
            more = connection.execute(beyond.format(conditions(rest, None, relations))).fetchone()
            reached[str(incarnation)] = row[0] if more and more[0] else through
            break
        return reached

    def _check_shape(self, connection: Connection, part: Slice) -> None:
        """A shape that the stream did not know when it began would lose its new columns."""
        if self._table is None:
            return
        now = chosen(connection, part, self._options.columns)
        if now.versions != self._table.versions:
            if now.columns != self._table.columns:
                raise StoreProblem(
                    f"{now.name} has changed its columns since the stream began",
                    "start the query again: it goes on where it was, with the new columns",
                )
            self._table = now


def _steps(start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Life, after, through; the older incarnation first."""
    return [
        (int(incarnation), start.get(incarnation, 0), end[incarnation])
        for incarnation in sorted(end, key=int)
        if end[incarnation] > start.get(incarnation, 0)
    ]
