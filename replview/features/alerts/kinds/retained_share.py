"""The alert kind *retained WAL, of its limit*."""

from typing import Any

from replview.features.alerts.amounts import Unit, amount_words, sizes_text
from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SampledSlotKind
from replview.features.alerts.measured import Measured
from replview.health import conditions
from replview.store.models import AlertRule, WatchedSlot


class RetainedShare(SampledSlotKind):
    """A slot retains much of the WAL that it may."""

    key = "retained_share"
    word = "Retained WAL, of its limit"
    about = (
        "WAL that the source keeps for the slot, as a share of max_slot_wal_keep_size or of "
        "the slot's budget, whichever is smaller."
    )
    remedy = "Let its consumer continue, raise the limit, or drop the slot."
    unit = Unit.SHARE
    built_in = (
        BuiltInRule(
            key="share_now",
            name="Retained WAL near its limit",
            severity=AlertRule.Severity.NOW,
            threshold=0.9,
            clear_threshold=0.85,
        ),
        BuiltInRule(
            key="share_look",
            name="Retained WAL over half its limit",
            severity=AlertRule.Severity.LOOK,
            threshold=0.5,
            clear_threshold=0.45,
        ),
    )

    def value(self, slot: WatchedSlot, observation: conditions.Observation) -> float | None:
        """Return retained WAL as a share of the limit."""
        return conditions.retained_share(slot, observation)

    def concerns(self, slot: WatchedSlot, *, own_rule: bool) -> bool:
        """Return whether the slot has a limit."""
        return conditions.share_limit_bytes(slot) is not None

    def detail(self, slot: WatchedSlot, observation: conditions.Observation) -> dict[str, Any]:
        """Return the two sizes of which the value is the ratio."""
        return {
            "retained_wal_bytes": observation.number("retained_wal_bytes"),
            "limit_bytes": conditions.share_limit_bytes(slot),
        }

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the share and both sizes."""
        amount = amount_words(measured.value, self.unit)
        sizes = sizes_text(measured.detail, "retained_wal_bytes", "limit_bytes")
        return f"{measured.name} retains {amount} of what it may{sizes}."
