"""Why a slot is lost, in words: what happened, and what keeps it from happening again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lost:
    """A reason of ``invalidation_reason`` explained."""

    cause: str
    #: What keeps its successor from the same end.
    advice: str


#: Source: PostgreSQL 18, slot.c, ``SlotInvalidationCauses``; of 16 and earlier see
#: ``health.server_slot.lost_reason``.
REASONS = {
    "wal_removed": Lost(
        "The source removed WAL which the slot still needed: it retained more than "
        "max_slot_wal_keep_size.",
        "Raise max_slot_wal_keep_size if the disk has room, or see that the slot is read.",
    ),
    "rows_removed": Lost(
        "This standby replayed that rows were removed which the slot still needed to decode.",
        "Set hot_standby_feedback = on on the standby, with a physical slot on its primary.",
    ),
    "wal_level_insufficient": Lost(
        "The primary's wal_level went below logical: its WAL can no longer be decoded here.",
        "Keep wal_level = logical on the primary.",
    ),
    "idle_timeout": Lost(
        "Nobody read it for longer than idle_replication_slot_timeout.",
        "Raise idle_replication_slot_timeout, or see that the slot is read more often.",
    ),
    "conflicting": Lost(
        "It conflicts with recovery on this standby: rows it needed were removed, or the "
        "primary's wal_level went below logical (16 does not say which).",
        "Set hot_standby_feedback = on on the standby, and keep wal_level = logical.",
    ),
    "lost": Lost(
        "The source no longer has what the slot needs.",
        "See that the slot is read, and that max_slot_wal_keep_size leaves it room.",
    ),
}


def lost_title(name: str, reason: str) -> str:
    """``replview is lost: wal_removed.``"""
    return f"{name} is lost." if reason == "lost" else f"{name} is lost: {reason}."


def lost_short(reason: str) -> str:
    """``lost: wal_removed``, where a number would stand."""
    return "lost" if reason == "lost" else f"lost: {reason}"


def explain(reason: str) -> Lost:
    """Of a reason nobody told us about: that the server gave it."""
    return REASONS.get(reason) or Lost(
        f"The source invalidated it and names the reason {reason}.",
        "See invalidation_reason in the server's documentation of pg_replication_slots.",
    )
