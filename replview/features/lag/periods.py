"""The tables of samples (raw, per minute, per hour), and the choice of one for a time range."""

import datetime as dt
from dataclasses import dataclass, replace

from replview.store.models import SampleMark, Setting

#: Lengths of a bucket in seconds that match the ticks of a time axis.
_STEPS = (
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200,
    86400,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SamplePeriod:
    """A table of samples."""

    name: str
    table: str
    #: Seconds that a row covers; 0 for a single moment.
    seconds: int
    #: Seconds between two rows.
    interval_seconds: float
    #: Longest range for which the table is read.
    longest: dt.timedelta
    #: Retention of its rows; None for the coarsest table.
    kept: dt.timedelta | None


_RAW = SamplePeriod("raw", "slot_sample", 0, 5.0, dt.timedelta(hours=2), dt.timedelta(hours=24))
MINUTE = SamplePeriod(
    "minute", "slot_sample_minute", 60, 60.0, dt.timedelta(days=3), dt.timedelta(days=30)
)
_HOUR = SamplePeriod("hour", "slot_sample_hour", 3600, 3600.0, dt.timedelta.max, None)
#: All tables, the finest first.
PERIODS = (_RAW, MINUTE, _HOUR)


def _positive_number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else default


def periods() -> tuple[SamplePeriod, SamplePeriod, SamplePeriod]:
    """Return the three tables, with the configured retention and sampling interval."""
    names = ("sampling.seconds", "samples.raw_hours", "samples.minute_days")
    settings = dict(Setting.objects.filter(name__in=names).values_list("name", "value"))
    raw_hours = _positive_number(settings.get("samples.raw_hours"), 24)
    minute_days = _positive_number(settings.get("samples.minute_days"), 30)
    seconds = _positive_number(settings.get("sampling.seconds"), _RAW.interval_seconds)
    raw = replace(_RAW, interval_seconds=seconds, kept=dt.timedelta(hours=raw_hours))
    return raw, replace(MINUTE, kept=dt.timedelta(days=minute_days)), _HOUR


def choose_period(since: dt.datetime, until: dt.datetime, now: dt.datetime) -> SamplePeriod:
    """Return the finest table that suits the range's length and still has all of it."""
    for period in periods():
        # Retention drops whole partitions, so the oldest day may be gone in part.
        if until - since <= period.longest and (period.kept is None or now - since <= period.kept):
            return period
    return _HOUR


def step_of(length: dt.timedelta, period: SamplePeriod, points: int) -> int:
    """Return the length of a bucket in seconds, so that at most ``points`` cover the range."""
    # Allow for one more bucket at either end, because buckets are aligned to the clock.
    min_seconds = max(length.total_seconds() / max(points - 2, 1), period.interval_seconds)
    return next(
        (step for step in _STEPS if step >= min_seconds), int(-(-min_seconds // 86400)) * 86400
    )


def boundaries(
    period: SamplePeriod, since: dt.datetime, until: dt.datetime
) -> list[tuple[SamplePeriod, dt.datetime, dt.datetime]]:
    """Return which table is read for which part of the range.

    Recent samples that are not rolled up yet are read from a finer table.
    """
    rolled_until = dict(SampleMark.objects.values_list("period", "until")) if period.seconds else {}
    pieces = []
    start = since
    for finer in reversed([finer for finer in PERIODS if finer.seconds <= period.seconds]):
        end = min(rolled_until.get(finer.name, start), until) if finer.seconds else until
        if end > start:
            pieces.append((finer, start, end))
            start = end
    return pieces
