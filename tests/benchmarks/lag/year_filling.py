"""A year of samples of many slots: raw for a day, a row a minute for a month, a row an hour before.

Positions and totals only grow, with a reset once in a while; one slot was away for a week.
"""

import datetime as dt
from dataclasses import dataclass, replace

from django.db import connection

from replview.store.write.partitions import ensure_partitions

_HOURS, _MINUTES_DAYS, _RAW_HOURS = 366 * 24, 30, 24
RAW_SECONDS = 5


@dataclass(frozen=True, slots=True)
class _Kept:
    """One table of samples: how far apart its rows are, and how far back they go."""

    table: str
    every: dt.timedelta
    back: dt.timedelta
    #: One partition for each of these, as the store's own keeper names them.
    monthly: bool = False


_KEPT = (
    _Kept("slot_sample_hour", dt.timedelta(hours=1), dt.timedelta(hours=_HOURS), monthly=True),
    _Kept("slot_sample_minute", dt.timedelta(minutes=1), dt.timedelta(days=_MINUTES_DAYS)),
    _Kept("slot_sample", dt.timedelta(seconds=RAW_SECONDS), dt.timedelta(hours=_RAW_HOURS)),
)
#: Seconds since 1970 make every figure: each period tells the same story.
_INSERT = """
INSERT INTO {table} (
    slot_id, sampled_at, current_lsn, restart_lsn, confirmed_flush_lsn, retained_wal_bytes,
    unconfirmed_wal_bytes, safe_wal_bytes, wal_status, active, transactions_stored,
    changes_stored, bytes_stored, write_lag_seconds, flush_lag_seconds, replay_lag_seconds,
    stored_after_p50_seconds, stored_after_p99_seconds, spill_txns, spill_bytes, stream_txns,
    stream_bytes, total_txns, total_bytes, batch_changes, memory_bytes)
SELECT slot_id, at, '0/0'::pg_lsn + s * 100000, '0/0'::pg_lsn + s * 100000 - 3 * behind,
       '0/0'::pg_lsn + s * 100000 - behind, (3 * behind)::bigint, behind::bigint,
       (64e9 - 3 * behind)::bigint, 'reserved', n %% 97 <> 0, s * 20, s * 200, s * 20000,
       behind / 1e9, behind / 9e8, behind / 8e8, 0.02 + behind / 1e10, 0.2 + behind / 1e9,
       s / 600, s / 6 * 100, s / 900, s / 9 * 100, s * 20 %% 1000000000, s * 25000,
       400 + n %% 1000, 80000000 + n %% 1000000
  FROM (SELECT slot_id, at, n, extract(epoch FROM at)::bigint - 1700000000 AS s,
               round(1e8 * (2 + sin(n / 50.0 + slot_id) + random()))::numeric AS behind
          FROM unnest(%(slots)s::bigint[]) AS slot_id,
               LATERAL (SELECT date_bin(%(every)s, %(now)s::timestamptz, 'epoch') AS newest) AS e,
               generate_series(0, %(count)s - 1) AS n,
               LATERAL (SELECT e.newest - n * %(every)s::interval AS at) AS moment
       ) AS drawn
 WHERE NOT (slot_id = %(away)s AND n BETWEEN %(count)s / 3 AND %(count)s / 3 + %(count)s / 50)
"""


#: Commits of every tenth minute of the month, summed by table and by size.
_INSERT_MINUTES = """
INSERT INTO relation_minute
SELECT i.id, r.id, date_trunc('minute', %(now)s::timestamptz) - n * interval '10 min',
       20 + n %% 50, 200 + n %% 500, 20000 + n %% 9000
  FROM slot_incarnation AS i JOIN relation AS r USING (slot_id), generate_series(1, 4320) AS n
"""
_INSERT_SIZES = """
INSERT INTO transaction_size_minute
SELECT i.id, date_trunc('minute', %(now)s::timestamptz) - n * interval '10 min', power,
       20 + n %% 50, 20000 + n %% 9000
  FROM slot_incarnation AS i, generate_series(0, 9, 3) AS power, generate_series(1, 4320) AS n
"""


def fill(slot_ids: list[int], now: dt.datetime) -> int:
    """Fill all three, and what was committed; returns how many rows."""
    from replview.store.models import SampleMark

    rows = sum(_fill(kept, slot_ids, now) for kept in _KEPT)
    whole = now.replace(second=0, microsecond=0)
    SampleMark.objects.create(period="minute", until=whole)
    SampleMark.objects.create(period="hour", until=whole.replace(minute=0))
    with connection.cursor() as cursor:
        for statement in (_INSERT_MINUTES, _INSERT_SIZES):
            cursor.execute(statement, {"now": now})
            rows += cursor.rowcount
        cursor.execute("VACUUM ANALYZE")
    return rows


def fill_raw(slot_ids: list[int], now: dt.datetime, back: dt.timedelta) -> int:
    """Fill raw samples alone, for so long before; returns how many rows.

    What they are summed up into has its partitions, as before a look: the product makes those.
    """
    connection.ensure_connection()
    days_ahead = dt.timedelta(days=2)
    ensure_partitions(connection.connection, (now - back).date(), (now + days_ahead).date())
    rows = _fill(replace(_KEPT[-1], back=back), slot_ids, now)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return rows


def _fill(kept: _Kept, slot_ids: list[int], now: dt.datetime) -> int:
    _make_partitions(kept, now)
    values = {
        "slots": slot_ids,
        "every": kept.every,
        "now": now,
        "count": int(kept.back / kept.every),
        "away": slot_ids[-1],
    }
    with connection.cursor() as cursor:
        cursor.execute(_INSERT.format(table=kept.table), values)
        return int(cursor.rowcount)


def _make_partitions(kept: _Kept, now: dt.datetime) -> None:
    """Create the missing partitions, from the oldest row's to that of the day after tomorrow."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    day = midnight - kept.back - kept.every
    day = day.replace(hour=0, minute=0, second=0, microsecond=0)
    with connection.cursor() as cursor:
        while day <= midnight + dt.timedelta(days=2):
            if kept.monthly:
                day = day.replace(day=1)
                following = (day + dt.timedelta(days=32)).replace(day=1)
                name = f"{kept.table}_{day:%Y%m}"
            else:
                following = day + dt.timedelta(days=1)
                name = f"{kept.table}_{day:%Y%m%d}"
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF {kept.table}"
                " FOR VALUES FROM (%s) TO (%s)",
                [day, following],
            )
            day = following
