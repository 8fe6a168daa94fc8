"""An hour of one slot as its samples tell it: read, cut off, idle; for the lag page's tests."""

import datetime as dt
import math
from typing import Any

from django.db import connection

from decoder.scalars import LSN
from replview.store.models import Slot, SlotEvent, SlotSample, Source, WatchedSlot

MB, GB = 1 << 20, 1 << 30
EVERY = dt.timedelta(seconds=5)
#: Samples of the hour, and after how many of them the consumer left.
SAMPLES, LEFT_AFTER = 720, 290


def tell_story(slot_id: int, now: dt.datetime) -> WatchedSlot:
    """Fill the hour before ``now``; the consumer left after 24 minutes, a gap is at 10 minutes."""
    Source.objects.update(max_slot_wal_keep_bytes=64 * GB)
    slot = Slot.objects.select_related("source").get(pk=slot_id)
    watched, _ = WatchedSlot.objects.update_or_create(
        id=slot.pk,
        defaults={"source": slot.source, "name": slot.name, "slot": slot, "first_seen_at": now},
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS slot_sample_story PARTITION OF slot_sample DEFAULT"
        )
    samples = [
        _sample(slot.pk, now - EVERY * (SAMPLES - n), n)
        for n in range(SAMPLES)
        if not 110 < n < 135
    ]
    SlotSample.objects.bulk_create(samples)
    for minutes, kind, message in (
        (48, "schema", "Table public.invoices has version 7."),
        (36, "disconnected", "The consumer left."),
        (34, "alert", "The slot is inactive."),
        (2, "alert", "Retained WAL is over half of its limit."),
    ):
        detail = {"table": "public.invoices"} if kind == "schema" else {}
        SlotEvent.objects.create(slot=slot, at=now - dt.timedelta(minutes=minutes), kind=kind,
                                 message=message, detail=detail)  # fmt: skip
    return watched


def _sample(slot_id: int, at: dt.datetime, n: int, **values: Any) -> SlotSample:
    read = n <= LEFT_AFTER
    position = 0x41_0000_0000 + n * 26 * MB + int(3 * MB * math.sin(n))
    read_to = position - MB if read else 0x41_0000_0000 + LEFT_AFTER * 26 * MB
    lag = 2.2 + 0.5 * math.sin(n * 1.7)
    known: dict[str, Any] = {
        "current_lsn": LSN(position),
        "confirmed_flush_lsn": LSN(read_to),
        "restart_lsn": LSN(read_to),
        "retained_wal_bytes": (120 * MB if read else (n - LEFT_AFTER) * 75 * MB + 120 * MB),
        "unconfirmed_wal_bytes": position - read_to,
        "wal_status": "reserved",
        "active": read,
        "write_lag_seconds": lag * 0.3 if read else None,
        "flush_lag_seconds": lag * 0.6 if read else None,
        "replay_lag_seconds": lag if read else None,
        "spill_bytes": n * 40_000,
        "stream_bytes": n * 90_000,
        "total_bytes": n * 900_000,
        "stored_after_p50_seconds": 0.04 if read else None,
        "stored_after_p99_seconds": 0.4 + 0.1 * math.sin(n) if read else None,
        "batch_changes": int(200 + 100 * math.sin(n / 9)) if read else None,
        "memory_bytes": 90 * MB if read else None,
    }
    return SlotSample(slot_id=slot_id, sampled_at=at, **{**known, **values})


def next_sample(slot_id: int, retained_wal_bytes: int) -> None:
    """Store a sample of this moment."""
    at = dt.datetime.now(dt.UTC)
    sample = _sample(slot_id, at, SAMPLES, retained_wal_bytes=retained_wal_bytes)
    SlotSample.objects.bulk_create([sample])
