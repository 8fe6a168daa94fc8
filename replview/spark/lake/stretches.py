"""Divide the changes that ``current`` lacks into stretches, each merged at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TRUNCATED = "_change_type = 'truncate'"
OF_ROWS = "_change_type <> 'truncate'"
#: How the mark of a masked value begins, and that of any value which must not be shown.
MASKED, MARK = '{"$masked"', '{"$'


def is_streamed() -> "Column":
    """Return whether a change was received, and is not a row of a baseline."""
    return F.col("_xid").isNotNull()


def is_marked(key: Sequence[str], mark: str) -> "Column":
    """Return whether a mark stands for the value of some column of a key."""
    marked = (F.col("_pg_raw")[name].startswith(mark) for name in key)
    return F.coalesce(F.greatest(F.lit(False), F.lit(False), *marked), F.lit(False))


@dataclass(frozen=True)
class Stretch:
    """Transactions of one incarnation that are merged together."""

    #: The table's oid: another table may have had the name before.
    oid: int
    incarnation: int
    after: int
    through: int

    def of(self, changes: "DataFrame") -> "DataFrame":
        """Return the changes of the stretch."""
        place = F.col("_commit_seq")
        mine = (F.col("_incarnation") == self.incarnation) & (F.col("_relation_oid") == self.oid)
        return changes.where(mine & (place > self.after) & (place <= self.through))


@dataclass(frozen=True)
class Facts:
    """The facts that decide how the changes of a stretch are merged."""

    #: The table's versions that rows have.
    versions: frozenset[int]
    #: The version of the last change of a row; None: there are only truncations.
    last_version: int | None
    #: Those of received changes: a baseline's rows may have a version that is in force no more.
    streamed: frozenset[int]
    #: Columns, by their name on the source, that some row after a change lacks.
    not_sent: frozenset[str]
    #: Commit LSN and seq of the last truncation.
    truncation: tuple[int, int] | None
    #: Position of the latest baseline.
    baseline: int | None
    #: True when some update may have moved its row to another key.
    moves: bool
    #: True when a column of the key is masked.
    hidden: bool

    @classmethod
    def of(cls, changes: "DataFrame", key: Sequence[str]) -> "Facts":
        """Read the facts in one pass. ``key``: columns of keys, by their names on the source."""
        is_truncation = F.col("_change_type") == "truncate"
        version = F.when(~is_truncation, F.col("_relation_version"))
        place = F.struct("_commit_version", is_streamed(), "_seq")
        is_after = F.col("_change_type").isin("insert", "update_postimage")
        row = changes.agg(
            F.collect_set(version),
            F.max_by("_relation_version", F.when(~is_truncation, place)),
            F.collect_set(F.when(is_streamed(), version)),
            F.flatten(
                F.collect_set(F.when(is_after & (F.size("_not_sent") > 0), F.col("_not_sent")))
            ),
            F.max(F.when(is_truncation, F.struct("_commit_version", "_seq"))),
            F.max(F.when(~is_streamed(), F.col("_commit_version"))),
            F.coalesce(F.max(F.col("_change_type") == "update_preimage"), F.lit(False)),
            F.coalesce(F.max(is_marked(key, MASKED)), F.lit(False)),
        ).collect()[0]
        versions, last_version, streamed, not_sent, truncation, *rest = row
        return cls(
            frozenset(versions), last_version, frozenset(streamed), frozenset(not_sent),
            None if truncation is None else (truncation[0], truncation[1]), *rest,
        )  # fmt: skip

    def version_after(self, former: int) -> int:
        """Return the version that the table has after the stretch, and had ``former`` before."""
        if self.last_version is None:
            return former
        return self.last_version if self.streamed else max(self.last_version, former)


@dataclass(frozen=True)
class Reset:
    """The last truncation and the latest baseline: what precedes them says nothing any more."""

    #: Commit LSN and seq.
    truncation: tuple[int, int] | None
    #: Position of the latest baseline of the incarnation that was ever merged; -1: none was.
    baseline: int
    #: True when the stretch has that baseline.
    is_read: bool

    @property
    def is_any(self) -> bool:
        """Return whether the stretch says of all rows whether they exist."""
        return self.is_read or self.truncation is not None

    def counting(self, rows: "DataFrame") -> "DataFrame":
        """Leave out rows that a truncation or a baseline supersedes."""
        commit, seq = self.truncation or (-1, -1)
        last = F.struct(F.lit(commit).cast("bigint"), F.lit(seq).cast("int"))
        place = F.col("_commit_version")
        later = (place >= self.baseline) & (F.struct("_commit_version", "_seq") > last)
        read = (place == self.baseline) & (place > commit)
        return rows.where(F.when(is_streamed(), later).otherwise(read))

    def gone(self, incarnation: int) -> str:
        """Return the SQL condition for rows of ``current`` that are gone; empty: none is."""
        if not self.is_any:
            return ""
        # What committed at a baseline's position comes after it.
        read = self.baseline - 1 if self.is_read else -1
        last = max(read, self.truncation[0] if self.truncation else -1)
        return f"(t._incarnation <> {incarnation} OR t._commit_version <= {last})"


def stretches(
    changes: "DataFrame", whole: Stretch, key: Sequence[str]
) -> Iterator[tuple[Stretch, Facts]]:
    """Cut a stretch where the table's version changes; yield nothing without changes."""
    mine = whole.of(changes)
    facts = Facts.of(mine, key)
    if len(facts.versions) < 2:
        if facts.versions or facts.truncation:
            yield whole, facts
        return
    before = F.lag("_relation_version").over(Window.orderBy("_commit_seq", "_seq"))
    # A baseline's rows have the version of an earlier place.
    streamed = mine.where(OF_ROWS).where(is_streamed())
    placed = streamed.select("_commit_seq", "_relation_version", before.alias("_before"))
    starts = placed.where(~F.col("_relation_version").eqNullSafe(F.col("_before")))
    firsts = sorted({row[0] for row in starts.select("_commit_seq").collect()})
    ends = [*(first - 1 for first in firsts[1:]), whole.through]
    for after, through in pairwise([whole.after, *ends]):
        stretch = replace(whole, after=after, through=through)
        yield stretch, Facts.of(stretch.of(changes), key)
