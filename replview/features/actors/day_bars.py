"""The geometry of a small bar chart of changes by day."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from replview.store.sums.actor_sums import (
    ActorDay,
)

#: Days drawn at most; the newest ones.
MOST_DAYS = 90


@dataclass(frozen=True, slots=True)
class Bar:
    """The rectangle of one day."""

    x: float
    y: float
    width: float
    height: float
    day: dt.date
    sums: ActorDay


@dataclass(frozen=True, slots=True)
class DayBars:
    """Bars in a box of ``width`` by ``height``; the last day ends at the right edge."""

    bars: tuple[Bar, ...]
    width: float
    height: float
    first_day: dt.date
    last_day: dt.date
    #: The highest bar's count.
    peak: int
    #: Width of the days before the record began, from the left edge.
    unknown: float = 0

    @property
    def path(self) -> str:
        """Return all bars as one SVG path, because a list draws thousands of bars."""
        return "".join(
            f"M{bar.x:g} {bar.y:g}h{bar.width:g}v{bar.height:g}h{-bar.width:g}z"
            for bar in self.bars
        )


def day_bars(
    days: Sequence[ActorDay], first_day: dt.date | None, last_day: dt.date,
    *, width: float, height: float, recorded_since: dt.date | None = None,
) -> DayBars:  # fmt: skip
    """Return bars of each day's changes, or of its messages if there are no changes.

    Without ``first_day`` the chart begins at the first day with data.
    """
    begin = first_day or min((day.day for day in days), default=last_day)
    begin = min(max(begin, last_day - dt.timedelta(days=MOST_DAYS - 1)), last_day)
    count = (last_day - begin).days + 1
    step = width / count
    shown = [day for day in days if begin <= day.day <= last_day]
    peak = max((_change_count(day) for day in shown), default=0)
    gap = 1 if step >= 4 else 0.5
    bars = []
    for day in shown:
        # Keep the smallest bar visible.
        bar_height = max(1.5, (height - 1) * _change_count(day) / max(peak, 1))
        box = ((day.day - begin).days * step, height - bar_height, max(step - gap, 1), bar_height)
        x, y, bar_width, bar_height = (round(length, 2) for length in box)
        bars.append(Bar(x, y, bar_width, bar_height, day.day, day))
    unknown = 0.0
    if recorded_since is not None and recorded_since > begin:
        days_before = min((recorded_since - begin).days, count)
        unknown = min([days_before * step, *(bar.x for bar in bars)])
    return DayBars(tuple(bars), width, height, begin, last_day, peak, round(unknown, 2))


def _change_count(day: ActorDay) -> int:
    return day.changes or day.messages
