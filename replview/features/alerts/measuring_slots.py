"""What is measured of slots, ours or not, from what the last looks at their sources told."""

import datetime as dt
import math
from collections.abc import Iterator
from typing import Any

from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import Sight
from replview.store.models import Slot, WatchedSlot
from replview.store.slot_control import DROPPED

#: Loss is foretold once this share of the limit is used: before that, any burst of writing would
#: look like one.
_FORETOLD_FROM = 0.1
#: With less than this left to confirm, a consumer that reads has no lag worth a name: a walsender
#: that has nothing to measure tells none.
_CAUGHT_UP_BYTES = 16 << 20


def retained_wal(sight: Sight) -> Iterator[Measured]:
    """Bytes, of slots that nothing limits; of others only for a rule of their own."""
    for row in _present(sight):
        limited = limit_of(row) is not None
        yield _measured(row, _known(sight, row, "retained_wal_bytes"), only_own_rule=limited)


def retained_share(sight: Sight) -> Iterator[Measured]:
    """Of the smaller of the source's limit and the slot's budget."""
    for row in _present(sight):
        limit, retained = limit_of(row), _known(sight, row, "retained_wal_bytes")
        if limit is not None:
            share = None if retained is None else retained / limit
            detail = {"retained_wal_bytes": retained, "limit_bytes": limit}
            yield _measured(row, share, detail=detail)


def time_to_loss(sight: Sight) -> Iterator[Measured]:
    """Seconds; infinite where nothing points to a loss."""
    rows = [row for row in _present(sight) if _limit_of_source(row) is not None]
    growth = sight.growth([row.pk for row in rows]) if rows else {}
    for row in rows:
        left, retained = left_bytes(row), _known(sight, row, "retained_wal_bytes")
        limit = _limit_of_source(row) or 1
        value = None
        if left is not None and retained is not None:
            value = foretold(left, retained / limit, growth.get(row.pk))
        detail = {"retained_wal_bytes": retained, "growth_bytes_per_second": growth.get(row.pk)}
        yield _measured(row, value, detail=detail)


def foretold(left: float, share: float, growth: float | None) -> float | None:
    """Seconds until nothing is left at this pace; infinite: no loss is in sight."""
    if share < _FORETOLD_FROM:
        return math.inf
    if growth is None:
        return None
    return max(left, 0.0) / growth if growth > 0 else math.inf


def lag(sight: Sight) -> Iterator[Measured]:
    """Seconds, as the walsender that reads the slot tells them."""
    for row in _present(sight):
        yield _measured(row, lag_of(row.facts) if _fresh(sight, row) else None)


def lag_of(facts: dict[str, Any]) -> float | None:
    """From one look: a consumer that reads and is caught up has none."""
    told = facts.get("replay_lag_seconds")
    if told is not None:
        return float(told)
    left = facts.get("unconfirmed_wal_bytes")
    if facts.get("active") and left is not None and left < _CAUGHT_UP_BYTES:
        return 0.0
    return None


def slot_lost(sight: Sight) -> Iterator[Measured]:
    """Of every slot; one of ours that is gone without our doing is lost, too."""
    for row in sight.slots:
        if row.gone_at is not None:
            ours = row.slot
            if ours is not None and ours.problem_code == DROPPED:
                yield _measured(row, 1.0, detail={"reason": "dropped at its WAL budget"})
            elif ours is not None and ours.desired == Slot.Desired.RUNNING and not ours.temporary:
                yield _measured(row, 1.0, detail={"reason": "gone"})
            continue
        reason = lost_reason(row.facts)
        value = None if not _fresh(sight, row) and reason is None else float(reason is not None)
        detail = {"reason": reason, "wal_status": row.facts.get("wal_status")}
        yield _measured(row, value, detail=detail)


def lost_reason(facts: dict[str, Any]) -> str | None:
    """Why a slot can no longer be read; None: it can, or it is not known that it cannot."""
    if reason := facts.get("invalidation_reason"):
        return str(reason)
    if facts.get("conflicting") is True:
        return "conflicting"
    return "wal_removed" if facts.get("wal_status") == "lost" else None


def slot_inactive(sight: Sight) -> Iterator[Measured]:
    """Seconds since somebody last read it."""
    for row in _present(sight):
        # A slot that is synchronised from the primary is never read on a standby.
        if row.facts.get("synced") is True or row.temporary:
            continue
        active, value = row.facts.get("active"), None
        if _fresh(sight, row) and active is True:
            value = 0.0
        elif _fresh(sight, row) and active is False and row.inactive_since is not None:
            value = max((sight.now - row.inactive_since).total_seconds(), 0.0)
        yield _measured(row, value, detail={"inactive_since": _iso(row.inactive_since)})


def unsafe_failover(sight: Sight) -> Iterator[Measured]:
    """Of slots that are to survive a failover, on a server that does not wait for its standbys."""
    for row in _present(sight):
        look = sight.looks.get(row.source_id)
        if row.facts.get("failover") is not True or row.facts.get("synced") is True:
            continue
        told = (look.holders or {}) if look is not None and sight.fresh(look.looked_at) else {}
        names = (told.get("failover_settings") or {}).get("synchronized_standby_slots")
        yield _measured(row, None if names is None else float(not str(names).strip()))


def limit_of(row: WatchedSlot) -> int | None:
    """Bytes that the slot may retain; None: as many as the disk has, or unknown."""
    budget = row.slot.wal_budget_bytes if row.slot is not None else None
    known = [size for size in (_limit_of_source(row), budget) if size]
    return min(known, default=None)


def left_bytes(row: WatchedSlot) -> float | None:
    """Until the source removes what the slot needs; None: unknown."""
    if (safe := row.facts.get("safe_wal_size")) is not None:
        return float(safe)
    limit, retained = _limit_of_source(row), row.facts.get("retained_wal_bytes")
    return None if limit is None or retained is None else float(limit - retained)


def _limit_of_source(row: WatchedSlot) -> int | None:
    limit = row.source.max_slot_wal_keep_bytes
    return None if limit is None or limit < 0 else limit


def _present(sight: Sight) -> Iterator[WatchedSlot]:
    """Those that are there and not lost."""
    for row in sight.slots:
        if row.gone_at is None and lost_reason(row.facts) is None:
            yield row


def _fresh(sight: Sight, row: WatchedSlot) -> bool:
    return sight.fresh(row.last_seen_at)


def _known(sight: Sight, row: WatchedSlot, name: str) -> float | None:
    value = row.facts.get(name) if _fresh(sight, row) else None
    return None if value is None else float(value)


def _measured(row: WatchedSlot, value: float | None, **more: Any) -> Measured:
    return Measured(
        subject=f"slot:{row.pk}",
        value=value,
        name=f"{row.source.name}/{row.name}",
        source_id=row.source_id,
        slot_id=row.pk,
        **more,
    )


def _iso(moment: dt.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
