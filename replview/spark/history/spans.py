"""The moment and the span that a question is about: commit LSNs or commit times."""

import datetime as dt
from dataclasses import dataclass

from replview.parquet.slice_schemas import PARTITION
from replview.spark.quoting import date, timestamp


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


def by_then(moment: HistoryEnd, *, time: str) -> str:
    """Return the SQL condition that a change was committed by then; it skips later days' files."""
    found = []
    if moment.lsn is not None:
        found.append(f"_commit_version <= {moment.lsn}")
    if moment.time is not None:
        found.append(f"{PARTITION} <= {date(moment.time)} AND {time} <= {timestamp(moment.time)}")
    return " AND ".join(found) or "true"


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

    def begun(self, *, time: str) -> str:
        """Return the SQL condition for not before the span; it skips files of earlier days."""
        found = []
        if self.from_lsn is not None:
            found.append(f"_commit_version >= {self.from_lsn}")
        if self.since is not None:
            found.append(f"{PARTITION} >= {date(self.since)} AND {time} >= {timestamp(self.since)}")
        return " AND ".join(found) or "true"

    def within(self, *, time: str) -> str:
        """Return the SQL condition for being in the span."""
        return f"{self.begun(time=time)} AND {by_then(self.end, time=time)}"


#: The span of everything that is exported.
WHOLE = HistoryRange()
