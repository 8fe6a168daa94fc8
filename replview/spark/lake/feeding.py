"""Feed a lake's tables from the record: a stream appends to ``changes``, then ``current`` follows.

A run is a number of bounded batches. Where each begins is read from ``changes`` itself, so that a
run that was killed anywhere is repeated from the last commit; Spark's checkpoint is thrown away.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from replview.parquet.archive.deleted import LOST, pieces
from replview.parquet.reading import connect
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.slices import Slice
from replview.parquet.writing.manifests import gaps_of
from replview.spark.lake.current import catch_up, forget_pending_rows
from replview.spark.lake.shapes import TableShape, read_shape
from replview.spark.lake.tables import CHANGES, CURRENT, LakeTable
from replview.spark.options import Options
from replview.spark.stream_offsets import (
    Offset,
    changes_between,
    end_of_batch,
    slice_between,
    steps,
    stored_offset,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Approximate number of changes in a batch.
BATCH_CHANGES = 1_000_000
_OPERATIONS = "insert, update, delete, snapshot, truncate"
_GAP_BEFORE = "SELECT 1 FROM slot_event WHERE incarnation_id = %s AND kind = 'gap' LIMIT 1"
#: An LSN before which all committed up to a place: that of the first transaction after it, or,
#: where that is a baseline or none, the LSN after the last one up to it; 0: unknown.
_LSN_AFTER = """
    SELECT coalesce(
        (SELECT CASE WHEN xid IS NOT NULL THEN commit_lsn - '0/0' END FROM transaction
         WHERE incarnation_id = %(incarnation)s AND commit_seq > %(end)s
         ORDER BY commit_seq LIMIT 1),
        (SELECT commit_lsn - '0/0' + 1 FROM transaction
         WHERE incarnation_id = %(incarnation)s AND commit_seq <= %(end)s AND xid IS NOT NULL
         ORDER BY commit_seq DESC LIMIT 1),
        0)::bigint
"""
_LAST_BEFORE = """
    SELECT max(commit_seq) FROM transaction
    WHERE incarnation_id = %s AND commit_seq > %s AND commit_seq <= %s
      AND xid IS NOT NULL AND commit_lsn < %s::pg_lsn
"""
#: A gap in the record: incarnation, first and last commit_seq (0: before the incarnation).
Gap = tuple[int, int, int]
_NO_KEY = "the table has no key, so that its rows cannot be told apart"


@dataclass
class Fed:
    """The result of a run."""

    #: How far ``changes`` and ``current`` have read the slot.
    reached: Offset
    merged: Offset
    batches: int = 0
    #: Changes that were read, and those that there were to read when the run began.
    changes: int = 0
    of_changes: int = 0
    #: Gaps in the record.
    gaps: list[Gap] = field(default_factory=list)
    #: Why there is no ``current``, or why it lacks changes; empty: it is whole.
    no_current: str = ""


@dataclass(frozen=True)
class Feed:
    """A lake's table and the part of the store that it is fed from."""

    lake: LakeTable
    changes: int = BATCH_CHANGES
    #: Further options of the data source: ``dsn``, ``archive``, ``failOnDataLoss``.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Called with the result so far, before the first batch and after each.
    progress: Callable[[Fed], None] = lambda fed: None

    def run(self) -> Fed:
        """Read what is stored now. Raises ``StoreProblem``."""
        fed, shape = self._settled()
        options = Options.parse(self._options())
        fed.of_changes = changes_between(options, fed.reached, end_of_batch(options, fed.reached))
        self.progress(fed)
        while (appended := self._append(fed, shape)) is not None:
            fed.batches += 1
            shape = self._prepared(appended)
            self._catch_up(fed, shape)
            self.progress(fed)
        fed.no_current = self.lake.shape.get("missed", "") if shape.is_keyed else _NO_KEY
        return fed

    def settle(self) -> TableShape:
        """Merge what ``current`` lacks of ``changes``, and return the shape of both."""
        return self._settled()[1]

    def _settled(self) -> tuple[Fed, TableShape]:
        shape = self._prepared(None)
        fed = Fed(self.lake.reached(CHANGES), self.lake.reached(CURRENT))
        forget_pending_rows(self.lake, shape, fed.merged)
        self._catch_up(fed, shape)
        return fed, shape

    def _prepared(self, former: TableShape | None) -> TableShape:
        """Have the tables fit the newest version of the relation."""
        shape = self._shape()
        if former is None or former.table != shape.table:
            self.lake.prepare(shape.table)
        return shape

    def _catch_up(self, fed: Fed, shape: TableShape) -> None:
        """Merge what ``current`` lacks."""
        fed.merged = catch_up(self.lake, shape, fed.merged, fed.reached, self._gap_ends)

    def _shape(self) -> TableShape:
        return read_shape(Options.parse(self._options()))

    def _append(self, fed: Fed, shape: TableShape) -> TableShape | None:
        """Append one batch to ``changes``; return the table's shape, or None without a batch."""
        start, options = fed.reached, Options.parse(self._options())
        end = end_of_batch(options, start, self.changes)
        for incarnation, after, through in steps(start, end):
            fed.reached = {**start, str(incarnation): through}
            fed.gaps += self._gaps(start, incarnation, after, through)
            while not self._stream(start, fed.reached, incarnation, shape):
                shape = self._prepared(shape)
            fed.changes += changes_between(options, start, fed.reached)
            return shape
        return None

    def _gaps(self, start: Offset, incarnation: int, after: int, through: int) -> list[Gap]:
        """Return what the record lacks between two places of an incarnation, after ``start``."""
        # Before a later incarnation changes may be missing.
        is_first = bool(start) and not after
        options = Options.parse(self._options())
        with connect(options.dsn) as connection:
            part = slice_between(connection, options, incarnation, after, through)
            found = [
                (piece.after_seq + 1, piece.through_seq)
                for piece, manifest in pieces(connection, part, options.archive)
                if manifest == LOST
            ]
            for gap in gaps_of(connection, part):
                if gap["kind"] == "skipped":
                    found.append((gap["commit_seq"], gap["commit_seq"]))
                elif gap["kind"] == "unpublished":
                    last = _end_of_lapse(connection, part, gap["to_lsn"])
                    found.append((min(after + 1, last), last))
            if is_first and connection.execute(_GAP_BEFORE, [part.incarnation_id]).fetchone():
                found.append((0, 0))
        return [(incarnation, *span) for span in found]

    def _gap_ends(
        self, start: Offset, incarnation: int, after: int, through: int
    ) -> list[tuple[int, int]]:
        """Return the ends of gaps as ``current`` needs them."""
        gaps = self._gaps(start, incarnation, after, through)
        ends = sorted({max(last, after) for _, _, last in gaps})
        options = Options.parse(self._options())
        with connect(options.dsn) as connection:
            part = slice_between(connection, options, incarnation, after, through)
            of_part = {"incarnation": part.incarnation_id}
            lsns = (connection.execute(_LSN_AFTER, {**of_part, "end": end}) for end in ends)
            return [(end, (lsn.fetchone() or [0])[0]) for end, lsn in zip(ends, lsns, strict=True)]

    def status(self) -> dict[str, Any]:
        """Return how far both tables have read the slot, and what is stored."""
        options = Options.parse(self._options())
        with connect(options.dsn) as connection:
            stored = stored_offset(connection, options)
        lake = self.lake
        return {"stored": stored, **{kind: lake.reached(kind) for kind in (CHANGES, CURRENT)}}

    def _stream(self, start: Offset, end: Offset, incarnation: int, shape: TableShape) -> bool:
        """Append what a stream gives between two offsets.

        Return False, with nothing appended, if the table has had another shape meanwhile.
        """
        options = self._options(startingOffsets=json.dumps(start), upTo=json.dumps(end))
        stream = self.lake.spark.readStream.format("replview").options(**options).load()
        if self._shape().table != shape.table:
            return False

        def append(rows: "DataFrame", _: int) -> None:
            self.lake.append(rows, shape.table.oid, end, incarnation)

        try:
            self._run(stream, append)
        except StreamingQueryException:
            # A stream ends if the columns change before it has planned what to read.
            if self._shape().table == shape.table:
                raise
            return False
        return True

    def _run(self, stream: "DataFrame", append: Callable[["DataFrame", int], None]) -> None:
        """Run a stream to its end."""
        with tempfile.TemporaryDirectory(prefix="replview-lake-") as checkpoint:
            query = (
                stream.writeStream.foreachBatch(append)
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            try:
                query.awaitTermination()
            finally:
                query.stop()

    def _options(self, **more: str) -> dict[str, Any]:
        lake = self.lake
        return {"source": lake.source, "slot": lake.slot, "relation": lake.relation,
                # A run goes on over a gap, and names it.
                "failOnDataLoss": "false", "operations": _OPERATIONS,
                **self.options, **more}  # fmt: skip


def _end_of_lapse(connection: StoreConnection, part: Slice, to_lsn: str | None) -> int:
    """Return the commit_seq of a slice's last transaction before the end of a lapse."""
    if to_lsn is None:
        return part.through_seq
    ends = (part.incarnation_id, part.after_seq, part.through_seq, to_lsn)
    [(last,)] = connection.execute(_LAST_BEFORE, ends).fetchall()
    return part.after_seq if last is None else int(last)
