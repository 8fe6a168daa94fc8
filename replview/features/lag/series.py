"""Read samples over time as series with a limited number of points.

The server combines samples into buckets, which become the points. A bucket takes the highest value
where high is bad, the lowest where low is bad, and the growth per second of positions and totals.
A missing bucket is a gap.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from psycopg import sql

from replview.features.lag.periods import SamplePeriod, boundaries, choose_period, step_of
from replview.store.django_session import rows

#: Maps fields to the SQL aggregate of a bucket's rows.
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
#: Maps fields to totals, read as growth per second. A total that falls was reset: unknown.
COUNTERS = {
    "wal_written": "current_lsn",
    # A physical slot has only a restart_lsn.
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
_LSN_FIELDS = {"wal_written", "wal_read"}
#: Sampled columns of the fields whose name is no column.
_FIELD_COLUMNS = {
    "wal_written": ("current_lsn",),
    "wal_read": ("confirmed_flush_lsn", "restart_lsn"),
    "lost": ("wal_status",),
}
#: The first sample of each slot after a moment. The constant bound excludes the partitions of
#: earlier days.
_FIRST_SAMPLE = """
    SELECT min(first.sampled_at) FROM unnest(%(slots)s::bigint[]) AS of (slot_id)
    CROSS JOIN LATERAL (
        SELECT sampled_at FROM slot_sample
        WHERE slot_id = of.slot_id AND sampled_at > %(since)s ORDER BY sampled_at LIMIT 1) first
"""
_SAMPLES = """
    SELECT {columns}, sampled_at + make_interval(secs => {seconds}) AS at FROM {table}
    WHERE slot_id = ANY(%(slots)s) AND sampled_at >= {since} AND sampled_at < {until}
"""
_BIN = "date_bin(make_interval(secs => %(step)s), sampled_at, 'epoch'::timestamptz)"
# Compute the bucket's number after grouping: numeric arithmetic on each row would cost more than
# the rest of the query.
_BUCKETS = """
    SELECT slot_id, extract(epoch FROM {bin})::bigint / %(step)s AS bucket, {aggregates}
    FROM ({samples}) samples GROUP BY slot_id, {bin} ORDER BY slot_id, {bin}
"""


@dataclass(slots=True)
class SlotSeries:
    """One slot's points, oldest first; in a gap, every value of a point is None."""

    #: Time of each bucket's last sample, in seconds since 1970.
    times: list[float] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(slots=True)
class LagSeries:
    """The points of several slots over one time range."""

    since: dt.datetime
    until: dt.datetime
    #: The coarsest table that was read: ``raw``, ``minute`` or ``hour``.
    period: str
    #: Length of a bucket in seconds.
    step_seconds: int
    #: Seconds between two samples; about three times as long without a sample is a gap.
    interval_seconds: float
    slots: dict[int, SlotSeries] = field(default_factory=dict)


def read_first_sample(slot_ids: Sequence[int], since: dt.datetime) -> dt.datetime | None:
    """Return the time of the first sample of these slots after a moment; None: there is none."""
    first: dt.datetime | None = rows(_FIRST_SAMPLE, {"slots": list(slot_ids), "since": since})[0][0]
    return first


def read_series(
    slot_ids: Sequence[int],
    fields: Sequence[str],
    since: dt.datetime,
    until: dt.datetime,
    points: int = 1000,
    now: dt.datetime | None = None,
) -> LagSeries:
    """Return the fields of these slots between two moments, in at most ``points`` points per slot.

    ``fields`` are names in ``GAUGES`` and ``COUNTERS``; any other name raises ``KeyError``.
    """
    now = now or dt.datetime.now(dt.UTC)
    period = choose_period(since, until, now)
    step = step_of(until - since, period, points)
    series = LagSeries(since, until, period.name, step, period.interval_seconds)
    if not slot_ids or until <= since:
        return series
    # Also read buckets before the range: a rate needs the value before.
    lookback_seconds = max(step, 3 * period.interval_seconds)
    read_since = since - dt.timedelta(seconds=lookback_seconds)
    rows = _read_buckets(slot_ids, fields, period, read_since, until, step)
    for slot_id, buckets in groupby(rows, key=lambda row: row[0]):
        series.slots[slot_id] = _slot_series(list(buckets), fields, series)
    empty = SlotSeries(values={name: [] for name in fields})
    series.slots = dict.fromkeys(slot_ids, empty) | series.slots
    return series


def _read_buckets(
    slot_ids: Sequence[int],
    fields: Sequence[str],
    period: SamplePeriod,
    since: dt.datetime,
    until: dt.datetime,
    step: int,
) -> list[tuple[Any, ...]]:
    """Return the buckets as rows: slot, number, time, then the values of each field.

    A gauge has one value; a counter has its highest and its lowest.
    """
    params: dict[str, Any] = {"slots": list(slot_ids), "step": step}
    columns = ("slot_id", "sampled_at", *sorted(set(_columns(fields))))
    samples = []
    for number, (piece, start, end) in enumerate(boundaries(period, since, until)):
        params |= {f"since{number}": start, f"until{number}": end}
        samples.append(
            sql.SQL(_SAMPLES).format(
                columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
                seconds=piece.seconds,
                table=sql.Identifier(piece.table),
                since=sql.Placeholder(f"since{number}"),
                until=sql.Placeholder(f"until{number}"),
            )
        )
    if not samples:
        return []
    query = sql.SQL(_BUCKETS).format(
        bin=sql.SQL(_BIN),
        aggregates=sql.SQL(", ").join(map(sql.SQL, _aggregates(fields))),
        samples=sql.SQL(" UNION ALL ").join(samples),
    )
    return rows(query, params)


def _aggregates(fields: Iterable[str]) -> Iterator[str]:
    """Yield the selected expressions of a bucket: its time, then each field's values."""
    yield "extract(epoch FROM max(at))::float8"
    for name in fields:
        if name in GAUGES:
            yield GAUGES[name]
        else:
            column = COUNTERS[name]
            for function in ("max", "min"):
                yield _as_number(f"{function}({column})", name)


def _columns(fields: Iterable[str]) -> Iterator[str]:
    for name in fields:
        yield from _FIELD_COLUMNS.get(name, (name,))


def _as_number(expression: str, name: str) -> str:
    """Convert an LSN expression to a number of bytes; only differences are drawn."""
    return f"({expression} - '0/0'::pg_lsn)::float8" if name in _LSN_FIELDS else expression


def _slot_series(
    rows: list[tuple[Any, ...]], fields: Sequence[str], series: LagSeries
) -> SlotSeries:
    """Convert one slot's buckets to points, with rates of counters, and gaps."""
    max_distance = max(1, -int(-3 * series.interval_seconds // series.step_seconds))
    gap_after = [later[1] - row[1] > max_distance for row, later in pairwise(rows)]
    gap_after.append(False)
    columns: dict[str, list[Any]] = {}
    index = 3
    for name in fields:
        if name in GAUGES:
            columns[name] = [row[index] for row in rows]
            index += 1
        else:
            columns[name] = _rates(rows, index, gap_after)
            index += 2
    return _trim(rows, columns, gap_after, series)


def _rates(rows: list[tuple[Any, ...]], index: int, gap_after: list[bool]) -> list[float | None]:
    """Return the growth of a total per second; None over a gap and where the total fell.

    A total only grows, so its highest value is the one at the bucket's end. In a bucket in which it
    fell, because it was reset, the value at the end is unknown.
    """
    rates: list[float | None] = [None] * len(rows)
    end_known = True
    for number in range(1, len(rows)):
        previous, row = rows[number - 1], rows[number]
        total, least, last = row[index], row[index + 1], previous[index]
        seconds = row[2] - previous[2]
        if total is None or last is None or gap_after[number - 1] or seconds <= 0:
            end_known = True
            continue
        fell = least < last
        if not fell and end_known:
            rates[number] = (total - last) / seconds
        end_known = not fell or least == total
    return rates


def _trim(
    rows: list[tuple[Any, ...]],
    columns: dict[str, list[Any]],
    gap_after: list[bool],
    series: LagSeries,
) -> SlotSeries:
    """Drop the buckets before the range, and insert an empty point for each gap."""
    first = int(series.since.timestamp() // series.step_seconds)
    spacing = max(series.step_seconds, series.interval_seconds)
    trimmed = SlotSeries(values={name: [] for name in columns})
    for number, row in enumerate(rows):
        if row[1] < first:
            continue
        trimmed.times.append(row[2])
        for name, values in columns.items():
            trimmed.values[name].append(values[number])
        if gap_after[number]:
            trimmed.times.append(row[2] + spacing)
            for name in columns:
                trimmed.values[name].append(None)
    return trimmed
