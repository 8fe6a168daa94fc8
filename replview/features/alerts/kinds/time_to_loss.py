"""The alert kind *time to loss*."""

from typing import Any

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SampledSlotKind
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.health import conditions
from replview.store.models import AlertRule, WatchedSlot

_HOUR = 3600.0


class TimeToLoss(SampledSlotKind):
    """A slot will be lost soon."""

    key = "time_to_loss"
    word = "Time to loss"
    about = (
        "How long until the slot is lost, by the limit that is reached first: the source removes "
        "WAL that it needs, or replview drops it at its budget, at the median pace of the last "
        "one, five and ten minutes; or the source invalidates it because nobody reads it "
        "(idle_replication_slot_timeout). Foretold once a tenth of a size is used, or half of the "
        "timeout."
    )
    remedy = "Let its consumer continue, raise the limit that is named, or drop the slot."
    unit = Unit.SECONDS
    below = True
    # The estimate can change with each sample, so it must hold for more than one sample.
    built_in = (
        BuiltInRule(
            key="loss_now",
            name="Loss within an hour",
            severity=AlertRule.Severity.NOW,
            threshold=_HOUR,
            clear_threshold=1.5 * _HOUR,
            hold_seconds=6.0,
            clear_seconds=6.0,
        ),
        BuiltInRule(
            key="loss_look",
            name="Loss within six hours",
            severity=AlertRule.Severity.LOOK,
            threshold=6 * _HOUR,
            clear_threshold=8 * _HOUR,
            hold_seconds=6.0,
            clear_seconds=6.0,
        ),
    )

    def value(self, slot: WatchedSlot, observation: conditions.Observation) -> float | None:
        """Return the seconds until the slot is lost; infinite: no loss is in sight."""
        return conditions.seconds_to_loss(slot, observation)

    def concerns(self, slot: WatchedSlot, *, own_rule: bool) -> bool:
        """Return whether any limit can end the slot."""
        by_wal = conditions.limit_of(slot.source, slot.slot, losing=True).size_bytes is not None
        return by_wal or conditions.idle_timeout(slot.source) is not None

    def growth(
        self, snapshot: StoreSnapshot, slot: WatchedSlot
    ) -> tuple[float, float, float] | None:
        """Return the bytes a second by which the slot's WAL grows."""
        pace = snapshot.paces.get(slot.pk)
        if pace is None or pace.growth is None or pace.between is None:
            return None
        return pace.growth, *pace.between

    def detail(self, slot: WatchedSlot, observation: conditions.Observation) -> dict[str, Any]:
        """Return the numbers behind the estimate, and the limit that is reached first."""
        loss = conditions.time_to_loss(slot.source, observation.reading(slot), slot.slot)
        detail: dict[str, Any] = {
            "retained_wal_bytes": observation.number("retained_wal_bytes"),
            "growth_bytes_per_second": observation.growth and observation.growth[0],
            "span": loss.span if loss is not None else "",
            "lost_by": loss.by if loss is not None else "",
        }
        timeout = conditions.idle_timeout(slot.source)
        return detail if timeout is None else {**detail, "idle_timeout_seconds": timeout}

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence that says when and why the slot will be lost."""
        detail, lost_by = measured.detail, measured.detail.get("lost_by")
        if lost_by == conditions.BY_IDLE:
            timeout = amount_words(detail.get("idle_timeout_seconds"), Unit.SECONDS)
            cause = f": it has no consumer, and {conditions.BY_IDLE} is {timeout}"
        else:
            cause = _growth_text(detail)
        if measured.value == 0 and lost_by in (conditions.BY_IDLE, conditions.BY_SERVER):
            return f"{measured.name} is lost at the source's next checkpoint{cause}."
        amount = amount_words(measured.value, self.unit)
        span = f" ({detail['span']})" if detail.get("span") else ""
        return f"{measured.name} will be lost in about {amount}{span}{cause}."


def _growth_text(detail: dict[str, Any]) -> str:
    pace = detail.get("growth_bytes_per_second")
    return f": retained WAL grows by {amount_words(pace, Unit.BYTES)}/s" if pace else ""
