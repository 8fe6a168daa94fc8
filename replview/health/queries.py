"""This module holds the SQL that reads slots, samples, open transactions and alerts for health."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
from django.conf import settings
from django.utils import timezone
from psycopg import sql

from replview.health.conditions import GROWTH_WINDOWS, growth_of
from replview.health.source_state import stale_after_of
from replview.health.states import Level, OldestPrepared, SlotReading
from replview.store.django_session import rows
from replview.store.models import Slot, Source, Transaction
from replview.store.models.seen import seen_ids
from replview.store.receiver_workers import SLOTS_PER_WORKER

OPEN_STATES = (Transaction.State.STREAMING, Transaction.State.PREPARED)
#: The number of workers for slots that run if all of them are full, else 0.
_FULL_WORKERS = """
SELECT CASE WHEN min(slots) >= %(most)s THEN count(*) ELSE 0 END
  FROM (SELECT count(*) AS slots FROM slot
         WHERE lease_owner <> ''
           AND heartbeat_at > %(lease_since)s
         GROUP BY lease_owner) workers
"""
# The first row counts the alerts and the full workers, and has the interval of samples; the others
# count the open transactions.
_OPEN_AND_ALERTS = sql.SQL("""
SELECT true, count(*), count(*) FILTER (WHERE rule_was->>'severity' = 'now'), NULL,
       NULL::timestamptz, ({full_workers}),
       (SELECT value::text FROM setting WHERE name = 'sampling.seconds')
  FROM alert WHERE state = 'firing'
   AND (%(seen)s::bigint[] IS NULL OR source_id IS NULL OR source_id = ANY(%(seen)s))
 UNION ALL
SELECT false, o.incarnation_id, o.number, oldest.gid, oldest.prepared_at, NULL, NULL
  FROM (SELECT incarnation_id, count(*) AS number, bool_or(state = 'prepared') AS prepared
          FROM transaction WHERE state IN ('streaming', 'prepared') GROUP BY 1) o
  LEFT JOIN LATERAL (
       SELECT gid, prepared_at FROM transaction
        WHERE o.prepared AND state = 'prepared' AND incarnation_id = o.incarnation_id
          AND prepared_at IS NOT NULL
        ORDER BY prepared_at LIMIT 1) oldest ON true
""").format(full_workers=sql.SQL(_FULL_WORKERS))
_SOURCE_FIELDS = [field.attname for field in Source._meta.concrete_fields]
_SOURCE_ID_INDEX = _SOURCE_FIELDS.index("id")
_SLOT_FIELDS = [field.attname for field in Slot._meta.concrete_fields]
_SLOT_COLUMNS = [f"slots__{name}" for name in _SLOT_FIELDS]

#: The query that reads each slot: ``wal_status`` from the last sample; sizes from the last sample
#: that has retained WAL (a lost slot retains none, so these samples may differ); a sample that is
#: four seconds to a minute older, for the rate; and the delay of the last commits. Samples are
#: five seconds apart, so the second one tells the rate; before that, the transactions of the last
#: five seconds tell it, where there are any. Every part has a constant bound, so that the planner
#: excludes the partitions of other days at once, rather than plan ninety of them four times over
#: on every page.
READINGS = """
SELECT s.id,
       latest.sampled_at, latest.retained_wal_bytes, latest.safe_wal_bytes, present.wal_status,
       coalesce((latest.transactions_stored - before.transactions_stored)
                    / extract(epoch FROM latest.sampled_at - before.sampled_at)::float8,
                delay.rate),
       delay.p50, delay.p99, NULL::float8, NULL::float8
  FROM slot s
  LEFT JOIN LATERAL (
       SELECT wal_status FROM slot_sample
        WHERE slot_id = s.id AND sampled_at > %(since)s
        ORDER BY sampled_at DESC LIMIT 1) present ON true
  LEFT JOIN LATERAL (
       SELECT * FROM slot_sample
        WHERE slot_id = s.id AND retained_wal_bytes IS NOT NULL
          AND sampled_at > %(since)s
        ORDER BY sampled_at DESC LIMIT 1) latest ON true
  LEFT JOIN LATERAL (
       SELECT sampled_at, transactions_stored FROM slot_sample
        WHERE slot_id = s.id AND transactions_stored IS NOT NULL
          AND sampled_at <= latest.sampled_at - interval '4 seconds'
          AND sampled_at >= latest.sampled_at - interval '1 minute'
          AND sampled_at > %(since_rate)s
        ORDER BY sampled_at DESC LIMIT 1) before ON true
  LEFT JOIN LATERAL (
       SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY took) AS p50,
              percentile_cont(0.99) WITHIN GROUP (ORDER BY took) AS p99,
              nullif(count(*) FILTER (WHERE ago < 5), 0)
                  / CASE WHEN count(*) FILTER (WHERE ago < 5) = 100 THEN greatest(max(ago), 0.1)
                         ELSE 5 END AS rate
         FROM (SELECT greatest(extract(epoch FROM stored_at - commit_time), 0)::float8 * 1e6
                          AS took,
                      extract(epoch FROM %(now)s - stored_at)::float8 AS ago
                 FROM transaction
                WHERE incarnation_id = s.incarnation_id AND commit_seq IS NOT NULL
                ORDER BY commit_seq DESC LIMIT 100) recent) delay ON true
"""

_PACE = sql.SQL("""CASE WHEN latest.sampled_at - {first}.sampled_at >= interval '30 seconds'
            THEN (latest.{value} - {first}.{value})::float8
                 / extract(epoch FROM latest.sampled_at - {first}.sampled_at)::float8 END""")

_FIRST = sql.SQL("""
  LEFT JOIN LATERAL (
       SELECT * FROM slot_sample
        WHERE slot_id = w.id AND sampled_at > {since}
        ORDER BY sampled_at LIMIT 1) {first} ON true""")

# The rates of every slot on a server, ours or not: of retained WAL over each of
# ``GROWTH_WINDOWS``, of the server's position over the longest, and of unconfirmed WAL over the
# shortest (for a physical slot: of retained WAL). The constant bounds exclude the partitions of
# other days.
_PACES = sql.SQL("""
SELECT false, w.id, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::text,
       {paces},
       CASE WHEN latest.sampled_at - a.sampled_at > interval '9 seconds'
            THEN (coalesce(latest.unconfirmed_wal_bytes, latest.retained_wal_bytes)
                  - coalesce(a.unconfirmed_wal_bytes, a.retained_wal_bytes))
                 / extract(epoch FROM latest.sampled_at - a.sampled_at)::float8 END
  FROM (SELECT id FROM watched_slot WHERE gone_at IS NULL UNION SELECT id FROM slot) w
 CROSS JOIN LATERAL (
       SELECT * FROM slot_sample
        WHERE slot_id = w.id AND sampled_at > %(just_now)s AND sampled_at <= %(now)s
        ORDER BY sampled_at DESC LIMIT 1) latest
  {firsts}
""").format(
    paces=sql.SQL(", ").join(
        _PACE.format(first=sql.Identifier(first), value=sql.Identifier(value))
        for first, value in (
            ("a", "retained_wal_bytes"),
            ("b", "retained_wal_bytes"),
            ("c", "retained_wal_bytes"),
            ("c", "current_lsn"),
        )
    ),
    firsts=sql.SQL("").join(
        _FIRST.format(first=sql.Identifier(name), since=sql.Placeholder(f"{name}_since"))
        for name in "abc"
    ),
)

_PRESENT = sql.SQL("SELECT true, r.* FROM ({readings}) r UNION ALL {paces}").format(
    readings=sql.SQL(READINGS), paces=_PACES
)

#: The highest retained WAL of each slot in each bucket of time.
HISTORY = """
SELECT slot_id, floor(extract(epoch FROM sampled_at - %(since)s) / %(bucket)s)::int AS bucket,
       max(retained_wal_bytes)
  FROM slot_sample
 WHERE sampled_at >= %(since)s AND retained_wal_bytes IS NOT NULL
 GROUP BY slot_id, bucket
"""

#: The time of the first sample after a moment.
FIRST_SAMPLE = "SELECT min(sampled_at) FROM slot_sample WHERE sampled_at > %s"

#: The number of open transactions and the oldest prepared one, by incarnation.
Open = dict[int | None, tuple[int, OldestPrepared | None]]


@dataclass(frozen=True, slots=True)
class AlertCounts:
    """The number of alerts that fire."""

    firing: int = 0
    #: Number of firing alerts that are urgent.
    now: int = 0

    @property
    def level(self) -> Level:
        """Return the level of the worst alert."""
        if self.now:
            return Level.NOW
        return Level.LOOK if self.firing else Level.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRates:
    """The rates at which a slot's numbers change, in bytes a second; None is unknown."""

    growth: float | None = None
    #: The slowest and the fastest growth of the windows.
    between: tuple[float, float] | None = None
    wal: float | None = None
    behind: float | None = None


def _slot_rates(*rates: float | None) -> SlotRates:
    """Return the rates from the last five columns of ``_PACES``."""
    *growths, wal, unconfirmed = rates
    growth, *extremes = growth_of(growths) or (None,)
    return SlotRates(
        growth=growth,
        between=(extremes[0], extremes[1]) if extremes else None,
        wal=wal,
        behind=unconfirmed,
    )


def _bounds(now: datetime) -> dict[str, datetime]:
    since = {
        f"{key}_since": now - window for key, window in zip("abc", GROWTH_WINDOWS, strict=True)
    }
    return {"now": now, "just_now": now - timedelta(seconds=40), **since}


def read_paces(now: datetime) -> dict[int, SlotRates]:
    """Return the rates of every slot on its server at a moment, by the id of its samples."""
    return {row[1]: _slot_rates(*row[6:]) for row in rows(_PACES, _bounds(now))}


def read_present() -> tuple[dict[int, SlotReading], dict[int, SlotRates]]:
    """Read the present state and the rates of all slots, in one query.

    Return the reading of every slot that replview receives, by its id, and the rates of every slot
    that is on its server, by the id of its samples.
    """
    now = timezone.now()
    since = now - timedelta(days=1)
    params = {"since": since, "since_rate": since - timedelta(minutes=1), **_bounds(now)}
    readings, paces = {}, {}
    for is_own, slot_id, sampled_at, retained, safe, status, *rates in rows(_PRESENT, params):
        if is_own:
            rate, p50, p99 = rates[:3]
            readings[slot_id] = SlotReading(
                sampled_at=sampled_at,
                retained_wal_bytes=retained,
                safe_wal_bytes=safe,
                wal_status=status,
                transactions_per_second=rate,
                stored_after_p50_us=p50,
                stored_after_p99_us=p99,
            )
        else:
            paces[slot_id] = _slot_rates(*rates)
    return readings, paces


def read_history(now: datetime, window: timedelta, buckets: int) -> dict[int, dict[int, int]]:
    """Return ``{slot id: {bucket: retained bytes}}``; a bucket without a sample is absent."""
    params = {"since": now - window, "bucket": window.total_seconds() / buckets}
    history: dict[int, dict[int, int]] = defaultdict(dict)
    for slot_id, bucket, retained in rows(HISTORY, params):
        history[slot_id][min(bucket, buckets - 1)] = retained
    return dict(history)


def read_window(now: datetime) -> timedelta:
    """Return the time span of charts that the samples fill: 15 minutes, an hour or three."""
    longest = timedelta(hours=3)
    first = rows(FIRST_SAMPLE, [now - longest])[0][0]
    age = timedelta(0) if first is None else now - first
    windows = (timedelta(minutes=15), timedelta(hours=1))
    return next((window for window in windows if age <= window), longest)


def read_full_workers(now: datetime) -> int:
    """Return the number of workers for slots that run if all of them are full.

    The result is 0 if one has room, or if none is known to run.
    """
    return int(rows(_FULL_WORKERS, _worker_params(now))[0][0])


def _worker_params(now: datetime) -> dict[str, object]:
    """Return the parameters of ``_FULL_WORKERS``."""
    lease_since = now - timedelta(seconds=settings.LEASE_SECONDS)
    return {"most": SLOTS_PER_WORKER, "lease_since": lease_since}


def read_open(now: datetime) -> tuple[Open, AlertCounts, int, timedelta]:
    """Return the open transactions, the alerts that fire, ``read_full_workers``, ``stale_after``.

    They share a query, since every page needs them.
    """
    # Open transactions are not filtered: callers look them up by slots that the user may see.
    params = {"seen": seen_ids(), **_worker_params(now)}
    (_, firing, urgent, *_, full_workers, seconds), *transactions = rows(_OPEN_AND_ALERTS, params)
    open_transactions: Open = {
        incarnation: (number, OldestPrepared(gid=gid or "", prepared_at=since) if since else None)
        for _, incarnation, number, gid, since, *_ in transactions
    }
    stale_after = stale_after_of(None if seconds is None else orjson.loads(seconds))
    return open_transactions, AlertCounts(firing, urgent), full_workers, stale_after


def read_registered() -> tuple[dict[int, Source], list[Slot]]:
    """Return all sources by id, and all slots, each with its source, in one query."""
    sources_and_slots = Source.objects.order_by("name", "slots__name")
    sources: dict[int, Source] = {}
    slots: list[Slot] = []
    for row in sources_and_slots.values_list(*_SOURCE_FIELDS, *_SLOT_COLUMNS):
        of_source, values = row[: len(_SOURCE_FIELDS)], row[len(_SOURCE_FIELDS) :]
        # A source is repeated in the row of each of its slots.
        source = sources.get(of_source[_SOURCE_ID_INDEX])
        if source is None:
            source = sources[of_source[_SOURCE_ID_INDEX]] = Source.from_db(
                sources_and_slots.db, _SOURCE_FIELDS, of_source
            )
        if values[0] is not None:
            slot = Slot.from_db(sources_and_slots.db, _SLOT_FIELDS, values)
            slot.source = source
            slots.append(slot)
    return sources, slots
