"""Merge the changes that ``changes`` has into ``current``, a version of the table at a time."""

# ruff: noqa: S608 (SQL of quoted names and constants)

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from replview.spark.lake.folding import Folding
from replview.spark.lake.shapes import TableShape
from replview.spark.lake.statements import (
    SOURCE,
    forget_statement,
    insert_statement,
    merge_statement,
    names_sql,
)
from replview.spark.lake.stretches import (
    MARK,
    OF_ROWS,
    TRUNCATED,
    Facts,
    Reset,
    Stretch,
    is_marked,
    is_streamed,
    stretches,
)
from replview.spark.lake.tables import CHANGES, CURRENT, LakeTable, bucket_of
from replview.spark.quoting import spark_literal, tick
from replview.spark.stream_offsets import Offset, steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Times that a MERGE is tried, as often as Spark tries a task.
_ATTEMPTS = 4
#: Spark's condition for rows of a checkpoint that were lost with their executor.
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_NO_KEY_THEN = "rows changed while the table had no key: read a baseline of the table"
_OTHER_KEY = "the key was altered, so that some rows are unknown: read a baseline of the table"
_MASKED_KEY = "a column of the key is masked, so that rows cannot be told apart"
_GAP = "changes are missing, so that rows are unknown or missing: read a baseline of the table"
#: Name of the note that a gap's end is about to be merged: incarnation, last commit_seq, LSN.
_PENDING = "forgets"
#: Returns the ends of gaps between two places of an incarnation, in order, given the offset before
#: them: the last commit_seq, and the LSN before which its changes committed (0: unknown).
GapEnds = Callable[[Offset, int, int, int], Sequence[tuple[int, int]]]


def catch_up(
    lake: LakeTable, shape: TableShape, start: Offset, end: Offset, gap_ends: GapEnds
) -> Offset:
    """Merge what ``changes`` has between two offsets into ``current``; return how far it is.

    At the end of a gap, all rows become unknown.
    """
    if not shape.is_keyed:
        return start
    for incarnation, after, through in steps(start, end):
        begin, oid = after, shape.table.oid
        for gap_end, lsn in gap_ends(start, incarnation, after, through):
            lake.set_shape({**lake.shape, _PENDING: [incarnation, gap_end, lsn]})
            _merge(lake, shape, Stretch(oid, incarnation, begin, gap_end), start)
            _forget_rows(lake, shape, incarnation, lsn)
            begin = gap_end
        _merge(lake, shape, Stretch(oid, incarnation, begin, through), start)
        start = {**start, str(incarnation): through}
    return end


def forget_pending_rows(lake: LakeTable, shape: TableShape, reached: Offset) -> None:
    """Mark rows unknown if a run was killed after it had merged the changes up to a gap's end."""
    former = lake.shape
    if pending := former.pop(_PENDING, None):
        incarnation, gap_end, lsn = pending
        if reached.get(str(incarnation), 0) >= gap_end:
            _forget_rows(lake, shape, incarnation, lsn)
        else:
            # The gap may have been filled since.
            lake.set_shape(former)


def _merge(lake: LakeTable, shape: TableShape, whole: Stretch, start: Offset) -> None:
    """Merge the changes of a stretch, before which ``start`` was reached."""
    if whole.after == whole.through:
        return
    for stretch, facts in stretches(lake.frame(CHANGES), whole, shape.key_columns):
        merge = Merge(lake, shape, stretch, facts, _former(lake, shape))
        if not merge.key:
            merge.pass_over()
            continue
        merge.adapt()
        with lake.reaching({**start, str(whole.incarnation): stretch.through}, whole.incarnation):
            merge.run()


def _forget_rows(lake: LakeTable, shape: TableShape, incarnation: int, lsn: int) -> None:
    """Mark all columns of all rows unknown: rows may have changed, moved or gone in a gap.

    Only the keys' values stay, so that the next change of a row finds it. A baseline from before
    ``lsn`` tells nothing, as if a later one were known.
    """
    former = _former(lake, shape)
    known = former.get("baseline", [incarnation, -1])
    now = {**former, "oid": shape.table.oid, "missed": _GAP,
           "baseline": max(known, [incarnation, lsn])}  # fmt: skip
    lake.set_shape(now)
    if key := former.get("key"):
        columns = {column.name: column.source_name for column in shape.table.columns}
        lake.spark.sql(forget_statement(lake.name(CURRENT), columns, key))
    now.pop(_PENDING, None)
    lake.set_shape(now)


def _former(lake: LakeTable, shape: TableShape) -> dict[str, Any]:
    """Return what is noted of the rows of ``current``; another table's rows are deleted."""
    former = lake.shape
    if former.get("oid", shape.table.oid) == shape.table.oid:
        return former
    lake.spark.sql(f"DELETE FROM {lake.name(CURRENT)}")
    return _pending(former)


def _pending(former: Mapping[str, Any]) -> dict[str, Any]:
    return {_PENDING: former[_PENDING]} if _PENDING in former else {}


@dataclass(frozen=True)
class Merge:
    """The merge of a stretch into ``current``."""

    lake: LakeTable
    shape: TableShape
    stretch: Stretch
    facts: Facts
    #: The table's note on the rows that are there.
    former: Mapping[str, Any]

    @property
    def version(self) -> int:
        """Return the version that the table has after the stretch."""
        return self.facts.version_after(self.former.get("version", min(self.shape.versions)))

    @property
    def key(self) -> list[str]:
        """Return the columns that identify a row after the stretch; empty: it is unknown."""
        return [] if self.facts.hidden else self.shape.key(self.version)

    @property
    def reset(self) -> Reset:
        """Return what supersedes earlier changes and rows."""
        incarnation, known = self.former.get("baseline", (0, -1))
        known = known if incarnation == self.stretch.incarnation else -1
        latest = known if self.facts.baseline is None else max(known, self.facts.baseline)
        return Reset(self.facts.truncation, latest, is_read=self.facts.baseline == latest)

    def pass_over(self) -> None:
        """Note why changes were left out."""
        why = _MASKED_KEY if self.facts.hidden else _NO_KEY_THEN
        self.lake.set_shape({**self.former, "oid": self.shape.table.oid, "missed": why})

    def adapt(self) -> None:
        """Have the rows that are there fit the version that the table has after the stretch.

        Altered values are forgotten, and rows placed anew under another key.
        """
        reset = self.reset
        missed = "" if reset.is_any else self.former.get("missed", "")
        if "version" in self.former:
            self._forget()
            if self._place(self.former["key"]):
                missed = _OTHER_KEY
        now = {"oid": self.shape.table.oid, "version": self.version, "key": self.key,
               "baseline": [self.stretch.incarnation, reset.baseline],
               "missed": _OTHER_KEY if self._lacks_keys() else missed,
               **_pending(self.former)}  # fmt: skip
        if self.former != now:
            self.lake.set_shape(now)

    def _lacks_keys(self) -> bool:
        """Return whether changes were made under another key, and do not have this one."""
        if len(self.facts.versions) < 2:
            return False
        columns = {column.name: column.source_name for column in self.shape.table.columns}
        lacks = (
            f"{tick(name)} IS NULL AND _pg_raw[{spark_literal(columns[name])}] IS NULL"
            for name in self.key
        )
        rows = self.stretch.of(self.lake.frame(CHANGES)).where(OF_ROWS)
        return not rows.where(" OR ".join(lacks)).isEmpty()

    def _forget(self) -> None:
        """Mark values unknown that ALTER TABLE may have changed."""
        versions = {*self.facts.streamed, self.version}
        altered = self.shape.altered(versions, self.former["version"])
        if altered:
            nulls = ", ".join(f"{tick(each)} = NULL" for each in altered)
            self.lake.spark.sql(
                f"UPDATE {self.lake.name(CURRENT)} "
                f"SET {nulls}, _unknown = array_union(_unknown, {names_sql(altered)})"
            )

    def _place(self, former_key: Sequence[str]) -> bool:
        """Place rows by another key; return whether some were given up, since it is unknown."""
        if former_key == self.key:
            return False
        lake = self.lake
        conditions = (f"array_contains(_unknown, {spark_literal(each)})" for each in self.key)
        unknown = " OR ".join(conditions)
        gives_up = not lake.frame(CURRENT).where(unknown).isEmpty()
        if gives_up:
            lake.set_shape({**self.former, "missed": _OTHER_KEY})
            lake.spark.sql(f"DELETE FROM {lake.name(CURRENT)} WHERE {unknown}")
        lake.spark.sql(f"UPDATE {lake.name(CURRENT)} SET _bucket = {bucket_of(self.key)}")
        return gives_up

    def run(self) -> None:
        """Merge the changes."""
        current, gone = self.lake.frame(CURRENT), self.reset.gone(self.stretch.incarnation)
        folding = self._folding()
        there = current.alias("t").where(f"NOT {gone}") if gone else current
        source = folding.fold(self._rows(folding), there, moves=self.facts.moves)
        source = source.withColumn("_bucket", F.expr(bucket_of(self.key)))
        if "version" not in self.former:
            source.createOrReplaceTempView(SOURCE)
            self.lake.spark.sql(insert_statement(self.lake.name(CURRENT), folding))
            return
        statement = merge_statement(self.lake.name(CURRENT), folding)
        if gone:
            statement += f" WHEN NOT MATCHED BY SOURCE AND {gone} THEN DELETE"
        _run(self.lake, statement, source)

    def _folding(self) -> Folding:
        """Return how the changes are folded."""
        shape, facts, version = self.shape, self.facts, self.version
        columns = {column.name: column.source_name for column in shape.table.columns}
        altered = shape.altered({*facts.versions, version}, version)
        not_sent = [
            name for name, source in columns.items() if source in facts.not_sent or name in altered
        ]
        full = any(shape.versions[each].replica_identity == "FULL" for each in facts.versions)
        inexact = [name for name in self.key if name in shape.inexact]
        return Folding(columns, self.key, not_sent, altered, version, full, inexact)

    def _rows(self, folding: Folding) -> "DataFrame":
        """Return the changes of rows, without those that a truncation or a baseline supersedes.

        Of a baseline's rows, those that changed after its position may have been merged before.
        """
        changes, reset = self.lake.frame(CHANGES), self.reset
        rows = reset.counting(self.stretch.of(changes).where(OF_ROWS))
        # A row whose key was erased is left out.
        rows = rows.where(~is_marked([folding.columns[name] for name in self.key], MARK))
        if not reset.is_read:
            return rows
        before = replace(self.stretch, after=0, through=self.stretch.after).of(changes)
        before = before.where(is_streamed() & (F.col("_commit_version") >= reset.baseline))
        if not before.where(TRUNCATED).isEmpty():
            return rows.where(is_streamed())
        changed = before.select(folding.identity.alias("_key")).distinct()
        read = rows.where(~is_streamed()).withColumn("_key", folding.identity)
        read = read.join(changed, "_key", "left_anti").drop("_key")
        return rows.where(is_streamed()).unionByName(read)


def _run(lake: LakeTable, statement: str, source: "DataFrame") -> None:
    """Run a MERGE, and repeat it if an executor died that had rows of its source."""
    for attempt in count(1):
        # MERGE reads its source twice: for the files that it touches, and for their rows.
        source.localCheckpoint().createOrReplaceTempView(SOURCE)
        try:
            lake.spark.sql(statement)
        except Exception as error:
            if attempt == _ATTEMPTS or _LOST not in str(error):
                raise
        else:
            return
