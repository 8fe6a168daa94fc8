"""The strip above a row's history: recorded since, gaps, changes, the moment asked for, now."""

import datetime as dt
from dataclasses import dataclass

from replview.store.read.coverage import Coverage
from replview.store.read.row_history.history import RowHistory

#: Of the strip's width, kept free at its end so that the last change can be seen.
_END = 99.0
_BEGIN = 1.0
#: Where the line is broken, what is left of it is this wide.
_BREAK = 8.0


@dataclass(frozen=True, slots=True)
class Strip:
    """Places in percent of the width."""

    begins: dt.datetime | None
    #: Where the record begins, which may be long before the first change: the line is broken.
    broken: bool
    ticks: tuple[tuple[float, str], ...]
    #: ``(x, width)`` of what is not recorded, and when the first of them began.
    gaps: tuple[tuple[float, float], ...]
    gap_at: dt.datetime | None
    as_of: float | None


def strip_of(
    history: RowHistory, coverage: Coverage, as_of: dt.datetime | None, now: dt.datetime
) -> Strip:
    """Draw a page of history between its oldest change and now."""
    times = [e.step.commit_time for e in history.entries if e.step.commit_time is not None]
    known = coverage.recorded_since
    oldest = min(
        [*times, *([as_of] if as_of and (not known or as_of > known) else [])], default=now
    )
    margin = max((now - oldest) * 0.06, dt.timedelta(seconds=1))
    begins = oldest - margin
    broken = known is not None and known < begins - margin
    if known is not None and not broken:
        begins = known
    low = _BREAK if broken else _BEGIN
    span = max((now - begins).total_seconds(), 0.001)

    def place(moment: dt.datetime) -> float:
        share = min(max((moment - begins).total_seconds() / span, 0.0), 1.0)
        return round(low + share * (_END - low), 2)

    gaps = []
    holes = [gap for gap in coverage.gaps if gap.kind == "gap" and gap.to_time >= begins]
    for gap in holes:
        left = place(gap.from_time or begins)
        gaps.append((left, round(max(place(gap.to_time) - left, 0.8), 2)))
    first = min(holes, key=lambda gap: gap.to_time, default=None)
    return Strip(
        begins=known,
        broken=broken,
        ticks=tuple(
            (place(e.step.commit_time), e.step.op)
            for e in history.entries
            if e.step.commit_time is not None
        ),
        gaps=tuple(gaps),
        gap_at=first.from_time or first.to_time if first else None,
        as_of=None if as_of is None else place(as_of),
    )
