"""A part of history that a job counts in, from and to commit LSNs or times; and why what is counted
may be other than what was committed in it.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoder.scalars import LSN
from replview.spark.history.datasets import Dataset, Incarnation
from replview.spark.history.reach import deleted, holes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Span:
    """Open ends are None; all ends are included."""

    from_lsn: int | None = None
    to_lsn: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    def since_of(self, frame: "DataFrame", *, time: str) -> "DataFrame":
        """What is not before it; files of earlier days are not opened."""
        from pyspark.sql import functions as F

        if self.from_lsn is not None:
            frame = frame.where(F.col("_commit_version") >= self.from_lsn)
        if self.since is not None:
            frame = frame.where(F.col("commit_date") >= F.lit(self.since.astimezone(dt.UTC).date()))
            frame = frame.where(F.col(time) >= F.lit(self.since))
        return frame

    def of(self, frame: "DataFrame", *, time: str) -> "DataFrame":
        """What is in it."""
        from pyspark.sql import functions as F

        frame = self.since_of(frame, time=time)
        if self.to_lsn is not None:
            frame = frame.where(F.col("_commit_version") <= self.to_lsn)
        if self.until is not None:
            frame = frame.where(F.col("commit_date") <= F.lit(self.until.astimezone(dt.UTC).date()))
            frame = frame.where(F.col(time) <= F.lit(self.until))
        return frame


def span_doubts(
    spark: "SparkSession", incarnation: Incarnation, span: Span, datasets: Sequence[Dataset] = ()
) -> tuple[str, ...]:
    """Sentences; none: what is exported has all of the span. Of these tables, or of transactions.

    An open end is that of what is exported: what is not told of lies beyond.
    """
    from pyspark.sql import functions as F

    own = incarnation.transactions(spark).where(F.col("state") != "snapshot")
    within = span.of(own, time="commit_time").agg(
        F.count_if(F.col("state") == "skipped").alias("skipped"),
        F.min("commit_seq").alias("first"),
        F.max("commit_seq").alias("last"),
    )
    micros = F.unix_micros("commit_time")
    ends = own.agg(
        F.min("_commit_version").alias("first_lsn"), F.max("_commit_version").alias("last_lsn"),
        F.min(micros).alias("first_time"), F.max(micros).alias("last_time"),
    )  # fmt: skip
    (row,) = within.crossJoin(ends).collect()
    found = _beyond(span, row)
    if row["last"] is None:
        return (*found, "no transaction of that time is exported")
    seqs = (row["first"] - 1, row["last"])
    if gone := deleted(incarnation, *seqs):
        found.append(f"{gone} of its transactions were deleted before they were exported")
    if row["skipped"]:
        found.append(f"{row['skipped']} transactions were left out of the record")
    for one in datasets or (None,):
        found.extend(holes(incarnation, *seqs, dataset=one))
    # What is so of all tables is said once.
    return tuple(dict.fromkeys(found))


def _beyond(span: Span, row: "Row") -> list[str]:
    """Ends of the span that lie beyond what is exported."""
    first, last = (_moment(row[name]) for name in ("first_time", "last_time"))
    found = []
    if span.to_lsn is not None and (row["last_lsn"] or 0) < span.to_lsn:
        found.append(f"what is exported ends {_at(row['last_lsn'])}, before the end asked for")
    if span.until is not None and last is not None and last < span.until:
        found.append(f"what is exported ends at {last.isoformat()}, before the end asked for")
    if span.from_lsn is not None and (row["first_lsn"] or 0) > span.from_lsn:
        found.append(f"what is exported begins {_at(row['first_lsn'])}, after the beginning asked "
                     "for")  # fmt: skip
    if span.since is not None and first is not None and first > span.since:
        found.append(f"what is exported begins at {first.isoformat()}, after the beginning asked "
                     "for")  # fmt: skip
    return found


def _at(lsn: int | None) -> str:
    return "before any" if lsn is None else f"at {LSN(lsn)}"


def _moment(micros: int | None) -> dt.datetime | None:
    return None if micros is None else _EPOCH + dt.timedelta(microseconds=micros)
