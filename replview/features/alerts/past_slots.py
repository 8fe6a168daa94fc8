"""Past samples of slots, with the growth and the disuse that they show."""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from replview.health.conditions import GROWTH_LEAST, GROWTH_WINDOWS, Observation, growth_of
from replview.store.django_session import rows
from replview.store.models import WatchedSlot

_SAMPLES_SQL = """
SELECT DISTINCT ON (slot_id, date_bin(%(bin)s, sampled_at, %(since)s))
       slot_id, sampled_at, retained_wal_bytes, unconfirmed_wal_bytes, safe_wal_bytes, wal_status,
       active, replay_lag_seconds, detail->>'invalidation_reason', detail->>'inactive_since'
  FROM slot_sample
 WHERE sampled_at >= %(since)s AND sampled_at <= %(until)s AND slot_id = ANY(%(slots)s)
 ORDER BY slot_id, date_bin(%(bin)s, sampled_at, %(since)s), sampled_at DESC
"""
#: Names of the columns of ``_SAMPLES_SQL``, spelled like in PostgreSQL's catalog.
_SAMPLE_COLUMNS = (
    "slot_id", "at", "retained_wal_bytes", "unconfirmed_wal_bytes", "safe_wal_size", "wal_status",
    "active", "replay_lag_seconds", "invalidation_reason", "inactive_since",
)  # fmt: skip
#: Approximate maximum of rows that are read; with many slots, fewer samples per slot are read.
_ROWS_LIMIT = 100_000
SampleRow = dict[str, Any]


def past_observations(
    slots: Collection[WatchedSlot], since: dt.datetime, until: dt.datetime
) -> Iterator[tuple[WatchedSlot, Iterable[Observation]]]:
    """Yield each slot that has samples with its observations, oldest first."""
    seconds = (until - since).total_seconds()
    interval = dt.timedelta(seconds=max(1.0, len(slots) * seconds / _ROWS_LIMIT))
    samples: dict[int, list[SampleRow]] = {slot.pk: [] for slot in slots}
    for row in _samples(list(samples), since, until, interval):
        samples[row["slot_id"]].append(row)
    return ((slot, _observations(samples[slot.pk])) for slot in slots if samples[slot.pk])


def _samples(
    slot_ids: list[int], since: dt.datetime, until: dt.datetime, interval: dt.timedelta
) -> Iterator[SampleRow]:
    """Yield samples of these slots, oldest first per slot, at most one per ``interval``."""
    params: dict[str, Any] = {"bin": interval, "since": since, "until": until, "slots": slot_ids}
    for values in rows(_SAMPLES_SQL, params):
        yield dict(zip(_SAMPLE_COLUMNS, values, strict=True))


def _observations(samples: list[SampleRow]) -> Iterator[Observation]:
    """Yield the samples of one slot, oldest first, with growth and inactivity added."""
    first, since = dict.fromkeys(GROWTH_WINDOWS, 0), None
    for row in samples:
        for window in GROWTH_WINDOWS:
            while row["at"] - samples[first[window]]["at"] > window:
                first[window] += 1
        if row["active"]:
            since = None
        elif row["active"] is False:
            # Take the server's time, or the first sample in which the slot was inactive.
            reported = row["inactive_since"]
            since = since or (dt.datetime.fromisoformat(reported) if reported else row["at"])
        yield Observation(
            at=row["at"],
            facts=row,
            inactive_since=since,
            growth=growth_of([_growth(samples[first[window]], row) for window in GROWTH_WINDOWS]),
        )


def _growth(older: SampleRow, row: SampleRow) -> float | None:
    span: dt.timedelta = row["at"] - older["at"]
    before, after = older["retained_wal_bytes"], row["retained_wal_bytes"]
    if span < GROWTH_LEAST or before is None or after is None:
        return None
    return float(after - before) / span.total_seconds()
