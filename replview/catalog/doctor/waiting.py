"""What slot creation would wait for, slots that hold WAL unread, a store on the same cluster."""

from collections.abc import Iterator

from replview.catalog.doctor.findings import Finding, note, ok, some_of, warning
from replview.catalog.naming import literal
from replview.catalog.slots import SlotFacts
from replview.catalog.state.open_transactions import OpenTransaction

#: Younger transactions end before anyone could act.
_SHORT_SECONDS = 5.0


def check_open_transactions(waiting_for: list[OpenTransaction]) -> Iterator[Finding]:
    """CREATE_REPLICATION_SLOT waits for each of them, in every database."""
    old = [
        item
        for item in waiting_for
        if item.gid is not None or item.age_seconds is None or item.age_seconds >= _SHORT_SECONDS
    ]
    if not old:
        yield ok("open_transactions", "no long transaction stands in the way of a new slot")
        return
    yield warning(
        "open_transactions",
        f"creating a slot would wait for {len(old)} open transaction{'s' if len(old) > 1 else ''}: "
        f"{some_of([str(item) for item in old], 5)}",
        "Let them end, and where that is in order end them: "
        + "; ".join(_end(item) for item in old[:5]),
    )


def check_slots(slots: list[SlotFacts]) -> Iterator[Finding]:
    """Slots nobody reads hold WAL and old catalog rows; lost ones are of no use."""
    for slot in slots:
        drop = f"SELECT pg_drop_replication_slot({literal(slot.slot_name)})"
        if slot.wal_status == "lost" or slot.invalidation_reason:
            reason = f" ({slot.invalidation_reason})" if slot.invalidation_reason else ""
            yield note("lost_slot", f"slot {slot.slot_name} is lost{reason}", drop)
        elif not slot.active and slot.retained_wal_bytes:
            megabytes = slot.retained_wal_bytes / 1024**2
            yield warning(
                "inactive_slot",
                f"slot {slot.slot_name} has no reader and holds {megabytes:,.1f} MB of WAL",
                f"Start its reader, or if nobody needs it: {drop}",
            )


def check_same_cluster(source: str | None, store: str | None) -> Iterator[Finding]:
    """In one cluster, the slot must read the WAL that storing its own changes writes."""
    if source is not None and source == store:
        yield warning(
            "same_cluster",
            "replview's store is in the same cluster as this source: the slot must read the WAL "
            "that storing its own changes writes (half the rate, never idle)",
            "Put the store into a cluster of its own: REPLVIEW_STORE_URL",
        )


def _end(item: OpenTransaction) -> str:
    if item.gid is not None:
        gid = literal(item.gid)
        return f"COMMIT PREPARED {gid}, or ROLLBACK PREPARED {gid} (in {item.database})"
    return f"SELECT pg_terminate_backend({item.pid})"
