"""Samples over time as series of at most so many points: raw, a row a minute, or a row an hour.

Points are buckets made by the server: of what is bad when high the highest, of what is bad when low
the lowest, of positions and totals the pace. A bucket without a sample is a gap.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from replview.features.lag.periods import Period, boundaries, choose_period, step_of
from replview.store.django_session import rows

#: Field → what of a bucket's rows it is.
GAUGES = {
    "retained_wal_bytes": "max(retained_wal_bytes)",
    "unconfirmed_wal_bytes": "max(unconfirmed_wal_bytes)",
    "safe_wal_bytes": "min(safe_wal_bytes)",
    "write_lag_seconds": "max(write_lag_seconds)",
    "flush_lag_seconds": "max(flush_lag_seconds)",
    "replay_lag_seconds": "max(replay_lag_seconds)",
    "stored_after_p50_seconds": "max(stored_after_p50_seconds)",
    "stored_after_p99_seconds": "max(stored_after_p99_seconds)",
    "batch_changes": "max(batch_changes)",
    "memory_bytes": "max(memory_bytes)",
    "active": "bool_or(active)",
    "lost": "bool_or(wal_status = 'lost')",
}
#: Field → what only ever grows, and is read as its pace a second. A fall is a reset: unknown.
COUNTERS = {
    "wal_written": "current_lsn",
    # A physical slot confirms by restart_lsn alone.
    "wal_read": "coalesce(confirmed_flush_lsn, restart_lsn)",
    "transactions_stored": "transactions_stored",
    "changes_stored": "changes_stored",
    "bytes_stored": "bytes_stored",
    "spill_txns": "spill_txns",
    "spill_bytes": "spill_bytes",
    "stream_txns": "stream_txns",
    "stream_bytes": "stream_bytes",
    "total_txns": "total_txns",
    "total_bytes": "total_bytes",
}
_LSNS = {"wal_written", "wal_read"}
#: Where the sampled columns are not the fields' own names.
_COLUMNS_OF = {
    "wal_written": ("current_lsn",),
    "wal_read": ("confirmed_flush_lsn", "restart_lsn"),
    "lost": ("wal_status",),
}


@dataclass(slots=True)
class SlotSeries:
    """One slot's points, oldest first; a gap is a point of which everything is None."""

    #: Seconds since 1970: of a bucket, when its last sample was taken.
    times: list[float] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(slots=True)
class Series:
    since: dt.datetime
    until: dt.datetime
    #: ``raw``, ``minute`` or ``hour``: the coarsest that was read.
    period: str
    #: How long a bucket is.
    step_seconds: int
    #: Samples are so far apart; longer than about three of it is a gap.
    interval_seconds: float
    slots: dict[int, SlotSeries] = field(default_factory=dict)


def read_series(
    slot_ids: Sequence[int],
    fields: Sequence[str],
    since: dt.datetime,
    until: dt.datetime,
    points: int = 1000,
    now: dt.datetime | None = None,
) -> Series:
    """The fields of these slots between two moments, in at most ``points`` points a slot.

    ``fields`` are names of ``GAUGES`` and ``COUNTERS``; any other raises ``KeyError``.
    """
    now = now or dt.datetime.now(dt.UTC)
    period = choose_period(since, until, now)
    step = step_of(until - since, period, points)
    series = Series(since, until, period.name, step, period.interval_seconds)
    if not slot_ids or until <= since:
        return series
    # The buckets before the first: a pace needs what was.
    back = max(step, 3 * period.interval_seconds)
    early = since - dt.timedelta(seconds=back)
    rows = _rows(slot_ids, fields, period, early, until, step)
    for slot_id, buckets in groupby(rows, key=lambda row: row[0]):
        series.slots[slot_id] = _slot_series(list(buckets), fields, series)
    empty = SlotSeries(values={name: [] for name in fields})
    series.slots = dict.fromkeys(slot_ids, empty) | series.slots
    return series


def _rows(
    slot_ids: Sequence[int],
    fields: Sequence[str],
    period: Period,
    since: dt.datetime,
    until: dt.datetime,
    step: int,
) -> list[tuple[Any, ...]]:
    """Buckets: slot, number, time, then a value for a gauge and the end and least of a counter."""
    values: dict[str, Any] = {"slots": list(slot_ids), "step": step}
    columns = ", ".join(sorted(set(_columns(fields))))
    parts = []
    pieces = boundaries(period, since, until)
    for number, (piece, start, end) in enumerate(pieces):
        values |= {f"since{number}": start, f"until{number}": end}
        parts.append(
            f"SELECT slot_id, sampled_at, sampled_at + interval '{piece.seconds} s' AS at"  # noqa: S608 (of constants)
            f"{', ' if columns else ''}{columns} FROM {piece.table}"
            f" WHERE slot_id = ANY(%(slots)s) AND sampled_at >= %(since{number})s"
            f" AND sampled_at < %(until{number})s"
        )
    if not parts:
        return []
    # The number of a bucket is made once a bucket: numeric arithmetic for every row costs more than
    # all the rest.
    binned = "date_bin(make_interval(secs => %(step)s), sampled_at, 'epoch'::timestamptz)"
    sql = (
        f"SELECT slot_id, extract(epoch FROM {binned})::bigint / %(step)s AS bucket, "  # noqa: S608 (of constants)
        f"{', '.join(_aggregates(fields))} FROM ({' UNION ALL '.join(parts)}) samples"
        f" GROUP BY slot_id, {binned} ORDER BY slot_id, {binned}"
    )
    return rows(sql, values)


def _aggregates(fields: Iterable[str]) -> Iterator[str]:
    """What is selected of a bucket: its time, then each field's value or values."""
    yield "extract(epoch FROM max(at))::float8"
    for name in fields:
        if name in GAUGES:
            yield GAUGES[name]
        else:
            column = COUNTERS[name]
            for function in ("max", "min"):
                yield _number(f"{function}({column})", name)


def _columns(fields: Iterable[str]) -> Iterator[str]:
    for name in fields:
        yield from _COLUMNS_OF.get(name, (name,))


def _number(expression: str, name: str) -> str:
    """A position as a number of bytes: its difference from the next is all that is drawn."""
    return f"({expression} - '0/0'::pg_lsn)::float8" if name in _LSNS else expression


def _slot_series(rows: list[tuple[Any, ...]], fields: Sequence[str], series: Series) -> SlotSeries:
    """One slot's buckets as points: paces from totals, and gaps where buckets are missing."""
    most = max(1, -int(-3 * series.interval_seconds // series.step_seconds))
    gap_after = [later[1] - row[1] > most for row, later in pairwise(rows)]
    gap_after.append(False)
    columns: dict[str, list[Any]] = {}
    place = 3
    for name in fields:
        if name in GAUGES:
            columns[name] = [row[place] for row in rows]
            place += 1
        else:
            columns[name] = _paces(rows, place, gap_after)
            place += 2
    return _within(rows, columns, gap_after, series)


def _paces(rows: list[tuple[Any, ...]], place: int, gap_after: list[bool]) -> list[float | None]:
    """A total as its growth a second; unknown over a gap and where it fell.

    What only grows is highest at a bucket's end. In a bucket in which it fell the end is not known.
    """
    paces: list[float | None] = [None] * len(rows)
    end_known = True
    for number in range(1, len(rows)):
        before, row = rows[number - 1], rows[number]
        total, least, last = row[place], row[place + 1], before[place]
        seconds = row[2] - before[2]
        if total is None or last is None or gap_after[number - 1] or seconds <= 0:
            end_known = True
            continue
        fell = least < last
        if not fell and end_known:
            paces[number] = (total - last) / seconds
        end_known = not fell or least == total
    return paces


def _within(
    rows: list[tuple[Any, ...]],
    columns: dict[str, list[Any]],
    gap_after: list[bool],
    series: Series,
) -> SlotSeries:
    """Only what was asked for, with a point of nothing where there is a gap."""
    first = int(series.since.timestamp() // series.step_seconds)
    spacing = max(series.step_seconds, series.interval_seconds)
    kept = SlotSeries(values={name: [] for name in columns})
    for number, row in enumerate(rows):
        if row[1] < first:
            continue
        kept.times.append(row[2])
        for name, values in columns.items():
            kept.values[name].append(values[number])
        if gap_after[number]:
            kept.times.append(row[2] + spacing)
            for name in columns:
                kept.values[name].append(None)
    return kept
