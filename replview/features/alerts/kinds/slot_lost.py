"""The alert kind *slot lost*."""

from collections.abc import Iterator

from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SampledSlotKind, measured_slot
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.health import conditions
from replview.store.models import AlertRule, Slot, WatchedSlot
from replview.store.slot_budget import DROPPED

_REASONS = {
    "wal_removed": "the source removed WAL that it still needed",
    # The server has not reported its reason yet.
    "lost": "the source removed WAL that it still needed",
    "rows_removed": "rows that it still needed were vacuumed away",
    "wal_level_insufficient": "wal_level is no longer high enough",
    "idle_timeout": "nobody read it for longer than idle_replication_slot_timeout",
    "conflicting": "it conflicted with recovery on the standby",
    "gone": "it is no longer on the source",
}


class SlotLost(SampledSlotKind):
    """A slot can never be read again."""

    key = "slot_lost"
    word = "Slot lost"
    about = (
        "The source removed WAL that the slot still needed, or invalidated the slot, or a "
        "slot that replview receives is no longer there."
    )
    remedy = (
        "Drop the slot and create it again. What was committed in between is not in its "
        "stream: take a baseline, or initialise the subscriber again."
    )
    built_in = (BuiltInRule(key="slot_lost", name="Slot lost", severity=AlertRule.Severity.NOW),)

    def value(self, slot: WatchedSlot, observation: conditions.Observation) -> float:
        """Return 1 for a lost slot, else 0."""
        return conditions.lost(slot, observation)

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield 1 for a lost slot, else 0; our slot that is gone while it should run is lost."""
        for watched in snapshot.slots:
            if watched.gone_at is not None:
                if gone_reason := _gone_reason(watched.slot):
                    yield measured_slot(watched, 1.0, detail={"reason": gone_reason})
                continue
            reason = conditions.lost_reason(watched.facts, watched.source.server_version) or None
            is_known = reason or snapshot.fresh(watched.last_seen_at)
            value = float(reason is not None) if is_known else None
            detail = {"reason": reason, "wal_status": watched.facts.get("wal_status")}
            yield measured_slot(watched, value, detail=detail)

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence that names the reason."""
        reason = str(measured.detail.get("reason") or "")
        cause = _REASONS.get(reason, reason or "the server does not say why")
        return f"{measured.name} is lost: {cause}."


def _gone_reason(slot: Slot | None) -> str | None:
    """Return why a slot that is no longer on its source counts as lost; None: it does not."""
    if slot is None:
        return None
    if slot.problem_code == DROPPED:
        return "dropped at its WAL budget"
    should_run = slot.desired == Slot.Desired.RUNNING and not slot.temporary
    return "gone" if should_run else None
