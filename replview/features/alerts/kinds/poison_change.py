"""The alert kind *poison change*."""

import datetime as dt
from collections.abc import Iterator

from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SlotKind, measured_own_slot
from replview.features.alerts.measured import Episode, Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import AlertRule, Quarantine

_EPISODES_LIMIT = 500


class PoisonChange(SlotKind):
    """A change that cannot be stored stops its slot."""

    key = "poison_change"
    word = "Poison change"
    about = "A change could not be stored; its slot waits for a decision."
    remedy = "On the slot's page: try again once the cause is fixed, or skip the transaction."
    built_in = (BuiltInRule(key="poison", name="Poison change", severity=AlertRule.Severity.NOW),)
    hidden_details = frozenset({"quarantine"})

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield 1 for a slot that a change stops until a user decides about it, else 0."""
        stopped: dict[int, int] = dict(
            Quarantine.objects.filter(settled_at=None).values_list("slot_id", "pk")
        )
        for slot in snapshot.ours:
            detail = {"quarantine": stopped.get(slot.pk)}
            yield measured_own_slot(slot, float(slot.pk in stopped), detail=detail)

    def past_episodes(
        self, rule: AlertRule, since: dt.datetime, until: dt.datetime
    ) -> list[Episode]:
        """Return the times in which a change stopped a slot, newest first."""
        quarantines = Quarantine.objects.filter(found_at__lte=until).select_related("slot__source")
        return [
            Episode(
                name=str(quarantine.slot),
                fired_at=max(quarantine.found_at, since),
                cleared_at=quarantine.settled_at,
                worst=None,
            )
            for quarantine in quarantines.defer("raw").order_by("-found_at")[:_EPISODES_LIMIT]
            if quarantine.settled_at is None or quarantine.settled_at > since
        ]

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence, which has no value of the change."""
        return f"{measured.name} is stopped by a change that could not be stored."
