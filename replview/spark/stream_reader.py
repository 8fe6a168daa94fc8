"""Read the record as a stream of whole transactions, in the order of history.

The offset has how far each incarnation of the slot was read: ``{"1": 5043}``. The record before an
offset does not change, so a batch that is repeated after a crash has the same rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from replview.parquet.archive.deleted import counts, pieces, resolved
from replview.parquet.reading import StoreProblem, connect
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.places import conditions, counted, wanted_operations
from replview.parquet.reading.resolving import chosen
from replview.parquet.slices import Slice, SliceTable
from replview.spark.options import Options, StorePartition, planned, read_partition

Offset = dict[str, int]

_INCARNATIONS = """
    SELECT i.number, i.commit_seq
    FROM slot_incarnation i JOIN slot_incarnation mine ON mine.slot_id = i.slot_id
    WHERE mine.id = %s ORDER BY i.number
"""
#: Number of commit_seq that are counted at once, at first and at most.
_WINDOW, _WIDEST = 1_000, 100_000
_COUNTS = "SELECT t.commit_seq, {changes} FROM transaction t WHERE {where} ORDER BY t.commit_seq"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of the record."""

    def __init__(self, options: Options, table: SliceTable | None, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema
        #: End of the run with AvailableNow; None otherwise.
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:
        """Return the offset before the first transaction."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that ``maxRowsPerTrigger`` sets."""
        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit this run to what is stored now."""
        with connect(self._options.dsn) as connection:
            self._target = self._stored(connection)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the offset that one batch within the limit reaches."""
        with connect(self._options.dsn) as connection:
            # Keep incarnations that were removed meanwhile.
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
        """Return the offset of what is stored now, for Spark's metrics."""
        with connect(self._options.dsn) as connection:
            return {number: seq for number, seq in self._stored(connection).items() if seq}

    def partitions(self, start: Offset, end: Offset) -> Sequence[StorePartition]:
        """Return the partitions between two offsets, by incarnation."""
        found: list[StorePartition] = []
        with connect(self._options.dsn) as connection:
            for incarnation, after, through in _steps(start, end):
                part = self._part(connection, incarnation, after, through)
                self._check_shape(connection, part)
                found += planned(connection, part, self._table, self._options)
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of history."""
        yield from read_partition(partition, self._options, self._schema)

    def _part(
        self, connection: StoreConnection, incarnation: int, after: int, through: int
    ) -> Slice:
        request = replace(
            self._options.request, incarnation=incarnation, after_seq=after, through_seq=through
        )
        return self._options.shown(connection, resolved(connection, request))

    def _stored(self, connection: StoreConnection) -> Offset:
        """Return how far each incarnation goes, or the chosen one."""
        part = resolved(connection, self._options.request)
        only = self._options.request.incarnation
        rows = connection.execute(_INCARNATIONS, [part.incarnation_id]).fetchall()
        return {str(number): int(seq) for number, seq in rows if only in (None, number)}

    def _limited(
        self, connection: StoreConnection, start: Offset, end: Offset, most: int
    ) -> Offset:
        """Return the offset after at most ``most`` changes, but at least one transaction.

        Windows of doubling size are counted in turn, so the cost depends on what is taken, not on
        the backlog.
        """
        reached, taken, width = dict(start), 0, _WINDOW
        for incarnation, after, through in _steps(start, end):
            whole = self._part(connection, incarnation, after, through)
            while after < through:
                part = replace(whole, after_seq=after, through_seq=min(after + width, through))
                for seq, changes in self._counts(connection, whole, part):
                    if taken and taken + changes > most:
                        return reached
                    taken += changes
                    reached[str(incarnation)] = seq
                reached[str(incarnation)] = after = part.through_seq
                width = min(2 * width, _WIDEST)
        return reached

    def _counts(
        self, connection: StoreConnection, whole: Slice, part: Slice
    ) -> Iterator[tuple[int, int]]:
        """Yield each transaction of a part of the backlog with its number of changes."""
        relation = None if self._table is None else self._table.relation_id
        for piece, manifest in pieces(connection, part, self._options.archive):
            if manifest and self._options.archive:
                yield from counts(connection, self._options.archive, manifest, piece, self._table)
            elif manifest is None:
                operations = wanted_operations(piece, rows=relation is not None)
                query = sql.SQL(_COUNTS).format(
                    changes=counted(operations, relation, whose=piece.whose),
                    where=conditions(piece, None, None if relation is None else [relation]),
                )
                yield from connection.execute(query)
            elif self._options.fail_on_data_loss:
                # Planning raises the problem, with everything that is lost.
                planned(connection, whole, self._table, self._options)

    def _check_shape(self, connection: StoreConnection, part: Slice) -> None:
        """Raise ``StoreProblem`` if columns changed, since new ones would be lost."""
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
    """Return incarnation, start and end of each part, older incarnations first."""
    return [
        (int(incarnation), start.get(incarnation, 0), end[incarnation])
        for incarnation in sorted(end, key=int)
        if end[incarnation] > start.get(incarnation, 0)
    ]
