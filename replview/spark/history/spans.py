"""The moment and the span that a question is about: commit LSNs or commit times."""

import datetime as dt
from dataclasses import dataclass

from replview.parquet.slice_schemas import PARTITION
from replview.spark.history.engines import DataFrame, Expression, F


@dataclass(frozen=True)
class HistoryEnd:
    """A commit LSN or commit time (both included) until which changes count, or the end."""

    lsn: int | None = None
    time: dt.datetime | None = None

    def __post_init__(self) -> None:
        if self.time is not None and self.time.tzinfo is None:
            raise ValueError("a time without its zone")

    @property
    def day(self) -> dt.date | None:
        """Return the last day whose files may count; None for all days."""
        return None if self.time is None else self.time.astimezone(dt.UTC).date()


#: The end of what is exported.
END = HistoryEnd()


def by_then(moment: HistoryEnd, *, time: str) -> Expression:
    """Return the condition that a change was committed by then; it skips files of later days."""
    found = F.lit(True)
    if moment.lsn is not None:
        found &= F.col("_commit_version") <= moment.lsn
    if moment.time is not None:
        found &= F.col(PARTITION) <= F.lit(moment.day)
        found &= F.col(time) <= F.lit(moment.time)
    return found


def committed_by(frame: DataFrame, moment: HistoryEnd, *, time: str) -> DataFrame:
    """Return the rows of transactions or events that were committed by then."""
    return frame.where(by_then(moment, time=time))


@dataclass(frozen=True)
class HistoryRange:
    """A span of history; None is an open end, and both ends are included."""

    from_lsn: int | None = None
    to_lsn: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    @property
    def end(self) -> HistoryEnd:
        """Return the moment until which changes count."""
        return HistoryEnd(self.to_lsn, self.until)

    def begun(self, *, time: str) -> Expression:
        """Return the test that a row is not before the span; it skips files of earlier days."""
        begins = F.lit(True)
        if self.from_lsn is not None:
            begins &= F.col("_commit_version") >= self.from_lsn
        if self.since is not None:
            begins &= F.col(PARTITION) >= F.lit(self.since.astimezone(dt.UTC).date())
            begins &= F.col(time) >= F.lit(self.since)
        return begins

    def since_of(self, frame: DataFrame, *, time: str) -> DataFrame:
        """Return the rows that are not before the span."""
        return frame.where(self.begun(time=time))

    def of(self, frame: DataFrame, *, time: str) -> DataFrame:
        """Return the rows in the span."""
        return committed_by(self.since_of(frame, time=time), self.end, time=time)


#: The span of everything that is exported.
WHOLE = HistoryRange()
