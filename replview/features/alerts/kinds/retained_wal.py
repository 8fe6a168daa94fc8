"""The alert kind *retained WAL, without a limit*."""

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SampledSlotKind
from replview.features.alerts.measured import Measured
from replview.health import conditions
from replview.store.models import AlertRule, WatchedSlot

_GB = float(1 << 30)


class RetainedWal(SampledSlotKind):
    """A slot that nothing limits retains much WAL."""

    key = "retained_wal"
    word = "Retained WAL, without a limit"
    about = (
        "WAL that the source keeps for a slot that neither max_slot_wal_keep_size nor a "
        "budget limits; of a single slot's own rule, in any case."
    )
    remedy = (
        "Let its consumer continue or drop the slot; set max_slot_wal_keep_size, so that it "
        "cannot fill the disk."
    )
    unit = Unit.BYTES
    built_in = (
        BuiltInRule(
            key="retained",
            name="Much WAL, and no limit",
            severity=AlertRule.Severity.LOOK,
            threshold=10 * _GB,
            clear_threshold=9 * _GB,
        ),
    )

    def value(self, slot: WatchedSlot, observation: conditions.Observation) -> float | None:
        """Return the bytes of WAL that the slot retains."""
        return conditions.retained_bytes(slot, observation)

    def concerns(self, slot: WatchedSlot, *, own_rule: bool) -> bool:
        """Return whether the slot has no limit, or this rule of its own."""
        return own_rule or conditions.share_limit_bytes(slot) is None

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the size."""
        amount = amount_words(measured.value, self.unit)
        return f"{measured.name} retains {amount} of WAL, and nothing limits it."
