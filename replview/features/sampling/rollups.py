"""Sum samples up by the minute and by the hour, and delete old ones.

Raw samples are kept for a day, minutes for a month, hours for a year (``instance_settings``:
``samples.raw_hours``, ``samples.minute_days``, ``samples.hour_days``). A period keeps

- the highest value of retained and unconfirmed WAL, of lags, of the time from commit to stored, and
  of the receiver's batch and memory;
- the lowest value of the WAL that can be written before the slot is in danger;
- the last known value of positions and totals;
- the worst ``wal_status``, and whether the slot was ever active.

A value that was unknown during the whole period stays unknown. Minutes are computed from raw
samples and hours from minutes, a little behind the present, by statements that can be repeated; a
mark stores how far they are complete. Samples are deleted only after they were summed up.
"""

import datetime as dt
import time

from django.db import OperationalError, connection, transaction
from psycopg import sql

from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.looks import forget_gone
from replview.store.models import SampleMark
from replview.store.write.partitions import SAMPLES_BY_MONTH, ensure_partitions

#: Time within which a sample is stored after its reading began.
_STORED_WITHIN = dt.timedelta(seconds=30)
_MINUTE, _HOUR = dt.timedelta(minutes=1), dt.timedelta(hours=1)
#: Time range that is summed up in one store transaction.
_RANGES = {"minute": 10 * _MINUTE, "hour": 12 * _HOUR}
#: Days for which samples of sources are kept; they are few and are not summed up.
SOURCE_DAYS = 7.0
_LOCK_TIMEOUT = "2s"

_HIGHEST = (
    "retained_wal_bytes", "unconfirmed_wal_bytes", "write_lag_seconds", "flush_lag_seconds",
    "replay_lag_seconds", "stored_after_p50_seconds", "stored_after_p99_seconds", "batch_changes",
    "memory_bytes",
)  # fmt: skip
_LOWEST = ("safe_wal_bytes",)
_LAST_KNOWN = (
    "current_lsn", "restart_lsn", "confirmed_flush_lsn", "transactions_stored", "changes_stored",
    "bytes_stored", "spill_txns", "spill_bytes", "stream_txns", "stream_bytes", "total_txns",
    "total_bytes",
)  # fmt: skip
#: Values of ``wal_status``, best first.
_STATUSES = ("reserved", "extended", "unreserved", "lost")
_ORIGIN_TABLES = {"minute": "slot_sample", "hour": "slot_sample_minute"}
_FIRST_SAMPLE = """
    SELECT min(first.sampled_at) FROM watched_slot w CROSS JOIN LATERAL (
        SELECT sampled_at FROM {samples} WHERE slot_id = w.id ORDER BY sampled_at LIMIT 1) first
"""
_PARTITION_NAMES = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass(%s) ORDER BY c.relname
"""


_HIGHEST_VALUE, _LOWEST_VALUE = sql.SQL("max({column})"), sql.SQL("min({column})")
_LAST_KNOWN_VALUE = sql.SQL(
    "(array_agg({column} ORDER BY sampled_at DESC) FILTER (WHERE {column} IS NOT NULL))[1]"
)
_WORST_STATUS = sql.SQL(
    "({statuses}::text[])[max(array_position({statuses}::text[], wal_status))]"
).format(statuses=list(_STATUSES))
_ROLL = """
    INSERT INTO {table} (slot_id, sampled_at, samples, {columns})
    SELECT w.id, p.* FROM watched_slot w CROSS JOIN LATERAL (
        SELECT date_trunc({period}, sampled_at, 'UTC') AS began, {count}, {aggregates}
        FROM {origin}
        WHERE slot_id = w.id AND sampled_at >= %(since)s AND sampled_at < %(until)s
        GROUP BY began) p
    ON CONFLICT (slot_id, sampled_at) DO UPDATE SET samples = excluded.samples, {updates}
"""


def _aggregates() -> dict[str, sql.Composable]:
    """Return the aggregate expression of each column."""
    by_column = (
        (_HIGHEST_VALUE, _HIGHEST),
        (_LOWEST_VALUE, _LOWEST),
        (_LAST_KNOWN_VALUE, _LAST_KNOWN),
    )
    return {
        **{
            name: value.format(column=sql.Identifier(name))
            for value, names in by_column
            for name in names
        },
        "wal_status": _WORST_STATUS,
        "active": sql.SQL("bool_or(active)"),
    }


def _roll_statement(table: str, origin: str, period: str, count: str) -> sql.Composed:
    """Return the statement that computes all periods from ``since`` to before ``until``.

    It reads one slot at a time, by the primary key, so it reads no other rows.
    """
    aggregates = _aggregates()
    columns = list(map(sql.Identifier, aggregates))
    update = sql.SQL("{column} = excluded.{column}")
    return sql.SQL(_ROLL).format(
        table=sql.Identifier(table),
        columns=sql.SQL(", ").join(columns),
        period=period,
        count=sql.SQL(count),
        aggregates=sql.SQL(", ").join(aggregates.values()),
        origin=sql.Identifier(origin),
        updates=sql.SQL(", ").join(update.format(column=column) for column in columns),
    )


_ROLL_STATEMENTS = {
    "minute": _roll_statement("slot_sample_minute", "slot_sample", "minute", "count(*)"),
    "hour": _roll_statement("slot_sample_hour", "slot_sample_minute", "hour", "sum(samples)"),
}


def roll(deadline: float) -> int:
    """Sum up complete periods until the deadline (monotonic); return the number of transactions."""
    now = dt.datetime.now(dt.UTC) - _STORED_WITHIN
    rolled = _roll_period("minute", now.replace(second=0, microsecond=0), deadline)
    minutes = SampleMark.objects.filter(period="minute").first()
    if minutes is not None:
        whole = minutes.until.replace(minute=0, second=0, microsecond=0)
        rolled += _roll_period("hour", whole, deadline)
    return rolled


def forget_old(now: dt.datetime | None = None) -> list[str]:
    """Drop partitions past their age, except locked ones; return their names."""
    now = now or dt.datetime.now(dt.UTC)
    raw = now - _age("samples.raw_hours", 24.0, _HOUR)
    minutes = now - _age("samples.minute_days", 30.0, 24 * _HOUR)
    hours = now - _age("samples.hour_days", 366.0, 24 * _HOUR)
    marks = dict(SampleMark.objects.values_list("period", "until"))
    long_ago = dt.datetime.min.replace(tzinfo=dt.UTC)
    dropped = _drop_partitions("slot_sample", min(raw, marks.get("minute", long_ago)))
    dropped += _drop_partitions("slot_sample_minute", min(minutes, marks.get("hour", long_ago)))
    dropped += _drop_partitions("slot_sample_hour", hours)
    dropped += _drop_partitions(
        "source_sample", now - _age("samples.source_days", SOURCE_DAYS, 24 * _HOUR)
    )
    forget_gone(hours, raw)
    return dropped


def _age(name: str, default: float, unit: dt.timedelta) -> dt.timedelta:
    """Return the age in settings after which samples are deleted."""
    return instance_settings.read_number(name, default, least=1.0, most=36600.0) * unit


def _roll_period(period: str, whole: dt.datetime, deadline: float) -> int:
    """Sum up one kind of period up to before ``whole``; return the number of transactions."""
    rolled = 0
    while time.monotonic() < deadline:
        with transaction.atomic():
            mark = SampleMark.objects.select_for_update().filter(period=period).first()
            if mark is None:
                first = _first_period(period)
                if first is None or first >= whole:
                    return rolled
                SampleMark.objects.get_or_create(period=period, defaults={"until": first})
                continue
            if mark.until >= whole:
                return rolled
            until = min(mark.until + _RANGES[period], whole)
            # Create the partitions of past days too: the store may have been away for long.
            since, today = mark.until.date(), dt.datetime.now(dt.UTC).date()
            if since < today:
                ensure_partitions(connection.connection, since, min(until.date(), today))
            with connection.cursor() as cursor:
                cursor.execute(_ROLL_STATEMENTS[period], {"since": mark.until, "until": until})
            mark.until = until
            mark.save()
        rolled += 1
    return rolled


def _first_period(period: str) -> dt.datetime | None:
    """Return the start of the first period that has a sample; None if there is no sample."""
    query = sql.SQL(_FIRST_SAMPLE).format(samples=sql.Identifier(_ORIGIN_TABLES[period]))
    first: dt.datetime | None = rows(query)[0][0]
    if first is None:
        return None
    first = first.astimezone(dt.UTC).replace(second=0, microsecond=0)
    return first.replace(minute=0) if period == "hour" else first


def _drop_partitions(parent: str, before: dt.datetime) -> list[str]:
    """Drop the partitions of ``parent`` that end by ``before``; return their names."""
    dropped = []
    for (name,) in rows(_PARTITION_NAMES, [parent]):
        end = _end_of(parent, name)
        if end is None or end > before:
            continue
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(_LOCK_TIMEOUT))
                cursor.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
                cursor.execute("SET LOCAL lock_timeout = DEFAULT")
        except OperationalError:
            break  # a query reads it
        dropped.append(name)
    return dropped


def _end_of(parent: str, name: str) -> dt.datetime | None:
    """Return the end of a partition's period, by its name; None for an unknown name."""
    digits = name.removeprefix(f"{parent}_")
    try:
        if parent == SAMPLES_BY_MONTH:
            month = dt.datetime.strptime(digits, "%Y%m").replace(tzinfo=dt.UTC)
            return (month + dt.timedelta(days=32)).replace(day=1)
        return dt.datetime.strptime(digits, "%Y%m%d").replace(tzinfo=dt.UTC) + dt.timedelta(days=1)
    except ValueError:
        return None
