"""A part of history that a job counts in: from and to commit LSNs or times."""

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
