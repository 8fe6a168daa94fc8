"""Slots of others as servers of 15, 16 and 18 tell them, beside the five invented sources."""

from datetime import datetime, timedelta
from typing import Any

from replview.store.models import SlotSample, Source, SourceLook, WatchedSlot, WatchedSubscription
from tests.support.scene import GB, MB, Scene

#: The columns of pg_replication_slots in each version; a missing column is absent.
COLUMNS_15 = {"two_phase": False, "wal_status": "reserved", "safe_wal_size": 60 * GB}
COLUMNS_16 = {**COLUMNS_15, "conflicting": False}
COLUMNS_18 = {**COLUMNS_16, "invalidation_reason": None, "failover": False, "synced": False,
              "inactive_since": None, "two_phase_at": None}  # fmt: skip


def watch(scene: Scene, source: Source, name: str, **values: Any) -> WatchedSlot:
    """A slot as last seen a second ago, read by its consumer unless told otherwise."""
    columns = {15: COLUMNS_15, 16: COLUMNS_16}.get(
        (source.server_version or 0) // 10000, COLUMNS_18
    )
    facts = {
        "slot_name": name, "active": True, "active_pid": 4711, "restart_lsn": "41/8C3310A0",
        "confirmed_flush_lsn": "41/8C3351E8", "retained_wal_bytes": 16 * MB,
        "unconfirmed_wal_bytes": 1 * MB, "temporary": False, **columns,
    } | values.pop("facts", {})  # fmt: skip
    known = {"slot_type": "logical", "plugin": "pgoutput", "database": "app", "temporary": False,
             "last_seen_at": scene.now - timedelta(seconds=1),
             "first_seen_at": scene.now - timedelta(days=40)}  # fmt: skip
    number = WatchedSlot.objects.count() + 90_000
    return WatchedSlot.objects.create(
        id=number, source=source, name=name, facts=facts, **(known | values)
    )


def unread(since: datetime, retained: int, **facts: Any) -> dict[str, Any]:
    """Values of a slot nobody reads."""
    told = {"active": False, "active_pid": None, "retained_wal_bytes": retained,
            "unconfirmed_wal_bytes": retained}  # fmt: skip
    return {"inactive_since": since, "facts": told | facts}


#: The row of a slot that max_slot_wal_keep_size has invalidated, as each version shows it.
LOST_15 = {
    "wal_status": "lost",
    "safe_wal_size": None,
    "active": False,
    "active_pid": None,
    "restart_lsn": None,
    "retained_wal_bytes": None,
    "unconfirmed_wal_bytes": None,
}
LOST_16 = {**LOST_15, "conflicting": False}
LOST_18 = {**LOST_16, "invalidation_reason": "wal_removed"}


def paces(
    scene: Scene, slot: WatchedSlot, retained: int, per_second: float, behind: float = 0
) -> None:
    """Samples of ten minutes, a few seconds apart at the end."""
    rows = []
    for age in (580, 400, 200, 35, 25, 15, 5):
        position = 0x41_0000_0000 + int((600 - age) * max(per_second, 0))
        rows.append(
            SlotSample(
                slot_id=slot.pk, sampled_at=scene.now - timedelta(seconds=age),
                current_lsn=position, wal_status="extended",
                retained_wal_bytes=int(retained - age * per_second),
                unconfirmed_wal_bytes=int(retained - age * (behind or per_second)),
            )
        )  # fmt: skip
    SlotSample.objects.bulk_create(rows)


def others(scene: Scene) -> dict[str, WatchedSlot]:
    """Create watched slots, one in each state, and return them by name."""
    source, made = scene.sources, {}
    billing, shop, crm = source["billing-eu"], source["shop"], source["crm"]
    left = scene.now - timedelta(hours=1, minutes=46)
    risk = watch(scene, billing, "debezium_billing", last_seen_at=scene.now, **unread(
        left, int(32.2 * GB), wal_status="extended", safe_wal_size=int(31.8 * GB)))  # fmt: skip
    paces(scene, risk, int(32.2 * GB), 5.2 * MB)
    made["risk"] = risk
    standby = {"slot_type": "physical", "plugin": None, "database": None}
    made["standby"] = watch(
        scene, billing, "standby_fra", **standby,
        facts={"confirmed_flush_lsn": None, "unconfirmed_wal_bytes": None, "state": "streaming",
               "retained_wal_bytes": 200_000, "application_name": "fra", "client_addr": "10.0.0.7",
               "replay_lag_seconds": 0.041, "sync_state": "async"},
    )  # fmt: skip
    behind = watch(scene, shop, "search_feed", facts={
        "application_name": "search", "retained_wal_bytes": int(3.4 * GB),
        "unconfirmed_wal_bytes": int(3.2 * GB), "backend_start": left.isoformat()})  # fmt: skip
    paces(scene, behind, int(3.2 * GB), -10 * MB, -40 * MB)
    made["behind"] = behind
    old = scene.now - timedelta(days=12)
    made["forgotten"] = watch(scene, crm, "o'brien_trial", **unread(old, 3 * GB))
    for name, on, lost in (("lost_15", "warehouse", LOST_15), ("lost_16", "billing-eu", LOST_16),
                           ("lost_18", "shop", LOST_18)):  # fmt: skip
        made[name] = watch(scene, source[on], name, inactive_since=old, facts=lost)
    made["gone"] = watch(scene, crm, "left_us", gone_at=scene.now - timedelta(minutes=3))
    made["temporary"] = watch(scene, crm, "pg_basebackup_77", temporary=True, **standby,
                              facts={"temporary": True, "confirmed_flush_lsn": None})  # fmt: skip
    return made


def subscription(scene: Scene, source: str, name: str, **facts: Any) -> WatchedSubscription:
    """A subscription whose worker runs."""
    told = {"subname": name, "subenabled": True, "subslotname": name, "pid": 77,
            "subpublications": ["all_tables"], "received_lsn": "2/4E91C3D8",
            "latest_end_lsn": "2/4E91C3D8", "last_msg_receipt_time": scene.now.isoformat(),
            "apply_error_count": 0, "sync_error_count": 0}  # fmt: skip
    return WatchedSubscription.objects.create(
        source=scene.sources[source], name=name, last_seen_at=scene.now, facts=told | facts
    )


def settings_of(scene: Scene, source: Source, **settings: Any) -> None:
    """Store a look at a source with its settings for slots and failover."""
    SourceLook.objects.create(
        source=source, looked_at=scene.now, prepared=[], running=[],
        holders={"failover_settings": settings, "slots": {}, "next_xid": 1000},
    )  # fmt: skip
