"""Samples as alerts read them: the pace of the last minutes, the past hour of all slots."""

import datetime as dt
from collections.abc import Collection, Iterator
from typing import Any

from django.db import connection
from django.db.models import Max

from replview.store.models import SourceSample, WatchedSlot

_GROWTH = """
SELECT w.id,
       (latest.retained_wal_bytes - older.retained_wal_bytes)
           / extract(epoch FROM latest.sampled_at - older.sampled_at)::float8
  FROM watched_slot w
  JOIN LATERAL (
       SELECT sampled_at, retained_wal_bytes FROM slot_sample
        WHERE slot_id = w.id AND retained_wal_bytes IS NOT NULL
          AND sampled_at > %(since)s AND sampled_at <= %(now)s
        ORDER BY sampled_at DESC LIMIT 1) latest ON true
  JOIN LATERAL (
       SELECT sampled_at, retained_wal_bytes FROM slot_sample
        WHERE slot_id = w.id AND retained_wal_bytes IS NOT NULL
          AND sampled_at > %(since)s AND sampled_at <= latest.sampled_at - %(least)s
        ORDER BY sampled_at LIMIT 1) older ON true
 WHERE w.id = ANY(%(slots)s)
"""
_PAST = """
SELECT DISTINCT ON (slot_id, date_bin(%(bin)s, sampled_at, %(since)s))
       slot_id, sampled_at, retained_wal_bytes, unconfirmed_wal_bytes, safe_wal_bytes, wal_status,
       active, replay_lag_seconds, detail->>'invalidation_reason', detail->>'inactive_since'
  FROM slot_sample
 WHERE sampled_at >= %(since)s AND sampled_at <= %(until)s AND slot_id = ANY(%(slots)s)
 ORDER BY slot_id, date_bin(%(bin)s, sampled_at, %(since)s), sampled_at DESC
"""
#: Their names, as a look at the server spells them.
_COLUMNS = (
    "slot_id", "at", "retained_wal_bytes", "unconfirmed_wal_bytes", "safe_wal_size", "wal_status",
    "active", "replay_lag_seconds", "invalidation_reason", "inactive_since",
)  # fmt: skip


def wal_growth(
    slot_ids: Collection[int], now: dt.datetime, window: dt.timedelta, least: dt.timedelta
) -> dict[int, float]:
    """Bytes a second by which retained WAL has grown over ``window``, by the slot's id; absent:
    the samples do not span ``least``.
    """
    parameters: dict[str, Any] = {
        "now": now,
        "since": now - window,
        "least": least,
        "slots": list(slot_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_GROWTH, parameters)
        return dict(cursor.fetchall())


def past_samples(
    slot_ids: Collection[int], since: dt.datetime, until: dt.datetime, apart: dt.timedelta
) -> Iterator[dict[str, Any]]:
    """Samples of these slots, oldest first of each, thinned out to one in ``apart``."""
    parameters: dict[str, Any] = {
        "bin": apart,
        "since": since,
        "until": until,
        "slots": list(slot_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAST, parameters)
        for values in cursor:
            yield dict(zip(_COLUMNS, values, strict=True))


def last_reached(source_ids: Collection[int], since: dt.datetime) -> dict[int, dt.datetime]:
    """When these sources last told their state; absent: not since then."""
    found: dict[int, dt.datetime] = {}
    samples = SourceSample.objects.filter(
        source_id__in=source_ids, reachable=True, sampled_at__gt=since
    )
    told = samples.values_list("source_id").annotate(last=Max("sampled_at"))
    slots = WatchedSlot.objects.filter(source_id__in=source_ids, last_seen_at__gt=since)
    seen = slots.values_list("source_id").annotate(last=Max("last_seen_at"))
    for source_id, last in [*told, *seen]:
        found[source_id] = max(last, found.get(source_id, last))
    return found
