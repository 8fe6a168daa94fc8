"""The periods of samples (raw, a row a minute, a row an hour), and the one a time is read from."""

import datetime as dt
from dataclasses import dataclass, replace

from replview.store.models import SampleMark, Setting


@dataclass(frozen=True, slots=True)
class Period:
    """A table of samples."""

    name: str
    table: str
    #: How long a row tells of; 0: of a moment.
    seconds: int
    #: How far its rows are apart.
    interval_seconds: float
    #: The longest stretch it is read for.
    longest: dt.timedelta
    #: How long its rows are kept; None: nothing coarser could tell instead.
    kept: dt.timedelta | None


_RAW = Period("raw", "slot_sample", 0, 5.0, dt.timedelta(hours=2), dt.timedelta(hours=24))
MINUTE = Period(
    "minute", "slot_sample_minute", 60, 60.0, dt.timedelta(days=3), dt.timedelta(days=30)
)
_HOUR = Period("hour", "slot_sample_hour", 3600, 3600.0, dt.timedelta.max, None)
#: The finest first.
PERIODS = (_RAW, MINUTE, _HOUR)
#: Lengths of a bucket that ticks of a time axis fall on.
_STEPS = (
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200,
    86400,
)  # fmt: skip


def _setting(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else otherwise


def periods() -> tuple[Period, Period, Period]:
    """The three tables, with what is kept of each and how often is sampled."""
    names = ("sampling.seconds", "samples.raw_hours", "samples.minute_days")
    chosen = dict(Setting.objects.filter(name__in=names).values_list("name", "value"))
    raw_hours = _setting(chosen.get("samples.raw_hours"), 24)
    minute_days = _setting(chosen.get("samples.minute_days"), 30)
    seconds = _setting(chosen.get("sampling.seconds"), _RAW.interval_seconds)
    raw = replace(_RAW, interval_seconds=seconds, kept=dt.timedelta(hours=raw_hours))
    return raw, replace(MINUTE, kept=dt.timedelta(days=minute_days)), _HOUR


def choose_period(since: dt.datetime, until: dt.datetime, now: dt.datetime) -> Period:
    """The finest that is meant for so long a stretch, and that is still kept for all of it."""
    for period in periods():
        # Whole partitions are dropped: the last day of what is kept may be gone in part.
        if until - since <= period.longest and (period.kept is None or now - since <= period.kept):
            return period
    return _HOUR


def step_of(length: dt.timedelta, period: Period, points: int) -> int:
    """Seconds of a bucket: none shorter than the rows are apart, and ``points`` of them suffice."""
    # One more at either end, since buckets begin where clocks do.
    least = max(length.total_seconds() / max(points - 2, 1), period.interval_seconds)
    return next((step for step in _STEPS if step >= least), int(-(-least // 86400)) * 86400)


def boundaries(
    period: Period, since: dt.datetime, until: dt.datetime
) -> list[tuple[Period, dt.datetime, dt.datetime]]:
    """Where each table takes over: what is not rolled up yet is read from the finer one."""
    rolled = dict(SampleMark.objects.values_list("period", "until")) if period.seconds else {}
    pieces = []
    start = since
    for one in reversed([one for one in PERIODS if one.seconds <= period.seconds]):
        end = min(rolled.get(one.name, start), until) if one.seconds else until
        if end > start:
            pieces.append((one, start, end))
            start = end
    return pieces
