"""The base class of kinds that measure slots."""

import datetime as dt
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from replview.features.alerts.kinds.base import MeasuredKind
from replview.features.alerts.measured import Measured, MeasuredSeries
from replview.features.alerts.past_slots import past_observations
from replview.features.alerts.snapshot import StoreSnapshot
from replview.health.conditions import Observation
from replview.store.models import AlertRule, Slot, WatchedSlot


class SlotKind(MeasuredKind):
    """A kind that measures slots."""

    per_slot = True


class SampledSlotKind(SlotKind):
    """A kind that measures slots from their samples, at present and in the past."""

    @abstractmethod
    def value(self, slot: WatchedSlot, observation: Observation) -> float | None:
        """Return the slot's value at the moment of the observation; None: unknown."""

    def concerns(self, slot: WatchedSlot, *, own_rule: bool) -> bool:
        """Return whether a rule of this kind applies to the slot.

        ``own_rule`` says that the rule was made for this slot alone.
        """
        return True

    def growth(
        self, snapshot: StoreSnapshot, slot: WatchedSlot
    ) -> tuple[float, float, float] | None:
        """Return how fast the slot's WAL grows, for a kind that needs it."""
        return None

    def detail(self, slot: WatchedSlot, observation: Observation) -> dict[str, Any]:
        """Return further values that an alert stores."""
        return {}

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield the values of existing slots that are not lost."""
        slots = [slot for slot in snapshot.existing_slots if self.concerns(slot, own_rule=True)]
        for slot in slots:
            observation = Observation(
                at=snapshot.now,
                facts=slot.facts if snapshot.fresh(slot.last_seen_at) else {},
                inactive_since=slot.inactive_since,
                growth=self.growth(snapshot, slot),
            )
            yield measured_slot(
                slot,
                self.value(slot, observation),
                detail=self.detail(slot, observation),
                only_own_rule=not self.concerns(slot, own_rule=False),
            )

    def past_series(
        self, rule: AlertRule, since: dt.datetime, until: dt.datetime
    ) -> list[MeasuredSeries] | None:
        """Return the values of each slot that the rule concerns."""
        watched = WatchedSlot.objects.select_related("source", "slot")
        if own_rule := rule.slot_id is not None:
            watched = watched.filter(pk=rule.slot_id)
        elif rule.pk is not None:
            own_rules = AlertRule.objects.filter(overrides=rule.pk, slot__isnull=False)
            watched = watched.exclude(pk__in=list(own_rules.values_list("slot_id", flat=True)))
        slots = [slot for slot in watched if self.concerns(slot, own_rule=own_rule)]
        return [
            MeasuredSeries(
                f"{slot.source.name}/{slot.name}",
                [(observation.at, self.value(slot, observation)) for observation in observations],
            )
            for slot, observations in past_observations(slots, since, until)
        ]


def measured_slot(slot: WatchedSlot, value: float | None, **fields: Any) -> Measured:
    """Return the value of a slot that exists on its source, or did."""
    return Measured(
        subject=f"slot:{slot.pk}",
        value=value,
        name=f"{slot.source.name}/{slot.name}",
        source_id=slot.source_id,
        slot_id=slot.pk,
        **fields,
    )


def measured_own_slot(slot: Slot, value: float | None, **fields: Any) -> Measured:
    """Return the value of a slot that replview receives."""
    watched = getattr(slot, "watched", None)
    return Measured(
        subject=f"slot:{slot.pk}",
        value=value,
        name=str(slot),
        source_id=slot.source_id,
        slot_id=watched.pk if watched is not None else None,
        **fields,
    )
