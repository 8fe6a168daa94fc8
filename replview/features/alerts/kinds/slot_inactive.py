"""The alert kind *slot inactive*."""

from typing import Any

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SampledSlotKind
from replview.features.alerts.measured import Measured
from replview.health import conditions
from replview.store.models import AlertRule, WatchedSlot


class SlotInactive(SampledSlotKind):
    """A slot has no consumer."""

    key = "slot_inactive"
    word = "Slot inactive"
    about = "The slot has had no consumer for this long; the source keeps WAL for it."
    remedy = "Start its consumer, or drop the slot."
    unit = Unit.SECONDS
    built_in = (
        BuiltInRule(
            key="inactive",
            name="Slot inactive",
            severity=AlertRule.Severity.LOOK,
            threshold=300.0,
        ),
    )

    def value(self, slot: WatchedSlot, observation: conditions.Observation) -> float | None:
        """Return the seconds without a consumer."""
        return conditions.unread_seconds(slot, observation)

    def concerns(self, slot: WatchedSlot, *, own_rule: bool) -> bool:
        """Return whether the slot should have a consumer.

        A slot that is synchronized from the primary is never read on a standby.
        """
        return not (slot.facts.get("synced") is True or slot.temporary)

    def detail(self, slot: WatchedSlot, observation: conditions.Observation) -> dict[str, Any]:
        """Return since when the slot is inactive."""
        return {"inactive_since": slot.inactive_since and slot.inactive_since.isoformat()}

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the time."""
        amount = amount_words(measured.value, self.unit)
        return f"{measured.name} has had no consumer for {amount}."
