"""Write the metrics of sources and their slots from the latest samples.

All values of a sample that is too old are left out, like any unknown value. A lost slot retains no
WAL and will never confirm any: its WAL metrics are left out too, never reported as 0.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import orjson
from django.db import connection
from django.db.models import TextField
from django.db.models.functions import Cast

from replview.features.monitoring.exposition import (
    Exposition,
    Measure,
    MetricRow,
    labels_text,
    with_label,
)
from replview.health.conditions import lost_reason
from replview.store.models import Slot, WatchedSlot

#: Every source with its last sample that it answered. The bound on time prunes partitions.
LAST_LOOKS = """
SELECT source.name, source.server_version, source.in_recovery, source.max_slot_wal_keep_bytes,
       source.problem_code, source.checked_at, look.looked_at,
       last.wal_directory_bytes, last.prepared, last.oldest_prepared_seconds,
       last.running, last.oldest_running_seconds, last.took_seconds,
       last.current_lsn - '0/0'::pg_lsn AS position_bytes
FROM source
LEFT JOIN source_look AS look ON look.source_id = source.id
LEFT JOIN LATERAL (
    SELECT *
    FROM source_sample
    WHERE source_id = source.id AND reachable AND sampled_at > %(since)s
    ORDER BY sampled_at DESC
    LIMIT 1
) AS last ON true
WHERE NOT source.ephemeral
ORDER BY source.name
"""
SOURCE_MEASURES = (
    Measure("replview_source_up", "gauge", "up",
            "Whether the source answered the last look; absent while nobody looks."),
    Measure("replview_source_sample_age_seconds", "gauge", "age",
            "Age of the last look that the source answered."),
    Measure("replview_source_sample_duration_seconds", "gauge", "took_seconds",
            "How long that look took."),
    Measure("replview_source_wal_position_bytes_total", "counter", "position_bytes",
            "Position in the WAL, in bytes: its rate is how fast the source writes WAL."),
    Measure("replview_source_wal_directory_bytes", "gauge", "wal_directory_bytes",
            "Size of pg_wal; absent where replview's role may not see it."),
    Measure("replview_source_slot_wal_limit_bytes", "gauge", "limit_bytes",
            "max_slot_wal_keep_size; absent where nothing limits what slots retain."),
    Measure("replview_source_prepared_transactions", "gauge", "prepared",
            "Transactions that wait for COMMIT PREPARED or ROLLBACK PREPARED."),
    Measure("replview_source_oldest_prepared_seconds", "gauge", "oldest_prepared_seconds",
            "Age of the oldest of them."),
    Measure("replview_source_running_transactions", "gauge", "running",
            "Sessions with an xid or a snapshot."),
    Measure("replview_source_oldest_transaction_seconds", "gauge", "oldest_running_seconds",
            "Age of the oldest transaction that runs."),
)  # fmt: skip
#: The latest known delays from commit to stored, of slots that replview reads.
_STORED_AFTER = """
SELECT ours.id, last.p50, last.p99
FROM unnest(%(slots)s::bigint[]) AS ours (id)
CROSS JOIN LATERAL (
    SELECT stored_after_p50_seconds AS p50, stored_after_p99_seconds AS p99
    FROM slot_sample
    WHERE slot_id = ours.id AND sampled_at > %(since)s AND stored_after_p50_seconds IS NOT NULL
    ORDER BY sampled_at DESC
    LIMIT 1
) AS last
"""
#: ``pg_replication_slots.wal_status``.
WAL_STATUSES = ("reserved", "extended", "unreserved", "lost")
#: Values that are left out for a lost slot.
_UNKNOWN_WHEN_LOST = ("retained_wal_bytes", "unconfirmed_wal_bytes", "safe_wal_size")
_STATUS_TAILS = {status: f',status="{status}"}}' for status in WAL_STATUSES}
MEASURES = (
    Measure("replview_slot_present", "gauge", "present",
            "Whether its server has the slot; absent while that is unknown."),
    Measure("replview_slot_active", "gauge", "active", "Whether a program reads the slot."),
    Measure("replview_slot_lost", "gauge", "lost",
            "Whether the slot is invalidated or its WAL removed: it can never be read again."),
    Measure("replview_slot_inactive_seconds", "gauge", "inactive_seconds",
            "Seconds for which no program has read the slot; absent while one does, and of a "
            "standby's copy, which cannot be read."),
    Measure("replview_slot_retained_wal_bytes", "gauge", "retained_wal_bytes",
            "WAL that the slot keeps its source from removing; absent of a lost slot."),
    Measure("replview_slot_unconfirmed_wal_bytes", "gauge", "unconfirmed_wal_bytes",
            "WAL written and not yet confirmed by the slot's reader; absent of a lost slot."),
    Measure("replview_slot_safe_wal_bytes", "gauge", "safe_wal_size",
            "WAL that can be written until the slot is in danger of being lost; absent where "
            "nothing limits it."),
    Measure("replview_slot_wal_budget_bytes", "gauge", "wal_budget_bytes",
            "WAL that replview's slot may cost its source; absent where it has no budget."),
    Measure("replview_slot_stored_after_p50_seconds", "gauge", "stored_after_p50_seconds",
            "From the commit on the source to stored: half of the transactions that were stored"
            " shortly before the last look took no longer."),
    Measure("replview_slot_stored_after_p99_seconds", "gauge", "stored_after_p99_seconds",
            "From the commit on the source to stored: 99 of 100 of them took no longer."),
    Measure("replview_slot_spilled_transactions_total", "counter", "spill_txns",
            "Transactions that decoding spilled to the source's disk "
            "(pg_stat_replication_slots)."),
    Measure("replview_slot_spilled_bytes_total", "counter", "spill_bytes",
            "Bytes that decoding spilled to the source's disk."),
    Measure("replview_slot_streamed_transactions_total", "counter", "stream_txns",
            "Transactions sent before they had ended."),
    Measure("replview_slot_streamed_bytes_total", "counter", "stream_bytes",
            "Bytes decoded for streaming transactions before they had ended."),
    Measure("replview_slot_decoded_transactions_total", "counter", "total_txns",
            "Transactions sent to the output plugin."),
    Measure("replview_slot_decoded_bytes_total", "counter", "total_bytes",
            "Bytes of transactions sent to the output plugin."),
)  # fmt: skip


def write_sources(scrape: Exposition, now: dt.datetime, fresh: dt.timedelta) -> None:
    """Write the metrics of all sources with one query."""
    rows = []
    with connection.cursor() as cursor:
        cursor.execute(LAST_LOOKS, {"since": now - fresh})
        names = [column.name for column in cursor.description]
        for values in cursor.fetchall():
            row = dict(zip(names, values, strict=True))
            is_recent = row["checked_at"] is not None and now - row["checked_at"] <= fresh
            row["up"] = not row["problem_code"] if is_recent else None
            position, limit = row["position_bytes"], row["max_slot_wal_keep_bytes"]
            row["position_bytes"] = None if position is None else int(position)
            row["limit_bytes"] = None if limit is None or limit < 0 else limit
            row["age"] = row["looked_at"] and max(0.0, (now - row["looked_at"]).total_seconds())
            rows.append((labels_text(source=row["name"]), row))
    scrape.table(SOURCE_MEASURES, rows)
    scrape.family("replview_source_info", "gauge", "What the source is; always 1.")
    for labels, row in rows:
        if row["server_version"] is not None:
            version = f"{row['server_version'] // 10000}.{row['server_version'] % 10000}"
            role = {None: "", True: "standby", False: "primary"}[row["in_recovery"]]
            info_labels = with_label(with_label(labels, "version", version), "role", role)
            scrape.sample("replview_source_info", info_labels, 1)


def write_slots(scrape: Exposition, now: dt.datetime, fresh: dt.timedelta) -> None:
    """Write the metrics of all slots with two queries."""
    rows = _read_slots(now, fresh)
    scrape.table(MEASURES, rows)
    scrape.family(
        "replview_slot_wal_status", "gauge", "wal_status of pg_replication_slots: 1 for the one."
    )
    for labels, slot in rows:
        if slot.get("wal_status") in WAL_STATUSES:
            for status, tail in _STATUS_TAILS.items():
                is_status = slot["wal_status"] == status
                scrape.sample("replview_slot_wal_status", labels[:-1] + tail, is_status)
    scrape.family(
        "replview_slot_lag_seconds", "gauge",
        "Time until the reader of the slot had written, flushed, replayed: as pg_stat_replication "
        "tells of its walsender.",
    )  # fmt: skip
    for labels, slot in rows:
        for stage in ("write", "flush", "replay"):
            if isinstance(seconds := slot.get(f"{stage}_lag_seconds"), int | float):
                slot_labels = with_label(labels, "stage", stage)
                scrape.sample("replview_slot_lag_seconds", slot_labels, seconds)
    scrape.family("replview_slot_info", "gauge", "What the slot is; always 1.")
    for labels, slot in rows:
        if slot["present"] is not False:
            slot_labels = with_label(labels, "type", slot["slot_type"])
            slot_labels = with_label(slot_labels, "plugin", slot["plugin"])
            slot_labels = with_label(slot_labels, "database", slot["database"])
            slot_labels = with_label(slot_labels, "ours", "true" if slot["ours"] else "false")
            scrape.sample("replview_slot_info", slot_labels, 1)


def _read_slots(now: dt.datetime, fresh: dt.timedelta) -> list[tuple[str, MetricRow]]:
    """Return labels and values of each slot, without dropped slots that replview does not read."""
    # Read as text: Django would parse a thousand JSON documents three times as slowly.
    slots_with_text = WatchedSlot.objects.annotate(facts_text=Cast("facts", TextField()))
    watched_slots = slots_with_text.filter(source__ephemeral=False).order_by("id").values(
        "id", "source__name", "name", "facts_text", "slot_id", "slot_type", "plugin", "database",
        "last_seen_at", "gone_at", "inactive_since", "slot__wal_budget_bytes", "slot__desired",
    )  # fmt: skip
    rows = []
    for row in watched_slots:
        forgotten = row["gone_at"] is not None and row["slot_id"] is None
        if not forgotten and row["slot__desired"] != Slot.Desired.REMOVING:
            rows.append((row["id"], labels_text(source=row["source__name"], slot=row["name"]),
                         _current_values(row, now, fresh)))  # fmt: skip
    stored_after = _stored_after([pk for pk, _, slot in rows if slot["ours"]], now - fresh)
    for pk, _, slot in rows:
        slot.update(stored_after.get(pk, {}))
    return [(labels, slot) for _, labels, slot in rows]


def _current_values(row: Mapping[str, Any], now: dt.datetime, fresh: dt.timedelta) -> MetricRow:
    """Return the slot's values; those of its facts only if it was sampled recently."""
    gone = row["gone_at"] is not None
    recent = not gone and now - row["last_seen_at"] < fresh
    facts = orjson.loads(row["facts_text"]) if recent else {}
    idle = None
    if recent and row["inactive_since"] is not None and facts.get("synced") is not True:
        idle = max(0.0, (now - row["inactive_since"]).total_seconds())
    # None when the slot's facts are unknown.
    lost = bool(lost_reason(facts)) if facts else None
    return {
        # Columns of pg_replication_slots, pg_stat_replication and pg_stat_replication_slots.
        **facts,
        **(dict.fromkeys(_UNKNOWN_WHEN_LOST) if lost else {}),
        "ours": row["slot_id"] is not None,
        "slot_type": row["slot_type"],
        "plugin": row["plugin"] or "",
        "database": row["database"] or "",
        "present": False if gone else True if recent else None,
        "lost": lost,
        "inactive_seconds": idle,
        "wal_budget_bytes": row["slot__wal_budget_bytes"],
    }


def _stored_after(slots: list[int], since: dt.datetime) -> dict[int, dict[str, float]]:
    """Return the delays from commit to stored by slot; leave out slots without a recent one."""
    if not slots:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_STORED_AFTER, {"slots": slots, "since": since})
        return {
            pk: {"stored_after_p50_seconds": p50, "stored_after_p99_seconds": p99}
            for pk, p50, p99 in cursor.fetchall()
        }
