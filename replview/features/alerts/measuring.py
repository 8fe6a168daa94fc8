"""What each kind of rule measures now, of every subject; None is unknown.

A subject that is absent has nothing to be measured: its alerts are over.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from replview.features.alerts import measuring_slots, measuring_sources, measuring_store
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import Sight
from replview.store.models import AlertRule

Measure = Callable[[Sight], Iterator[Measured]]

_K = AlertRule.Kind
MEASURES: dict[str, Measure] = {
    _K.RETAINED_WAL: measuring_slots.retained_wal,
    _K.RETAINED_SHARE: measuring_slots.retained_share,
    _K.TIME_TO_LOSS: measuring_slots.time_to_loss,
    _K.LAG: measuring_slots.lag,
    _K.SLOT_LOST: measuring_slots.slot_lost,
    _K.SLOT_INACTIVE: measuring_slots.slot_inactive,
    _K.UNSAFE_FAILOVER: measuring_slots.unsafe_failover,
    _K.RECEIVER_DOWN: measuring_store.receiver_down,
    _K.POISON_CHANGE: measuring_store.poison_change,
    _K.STORE_SIZE: measuring_store.store_size,
    _K.PREPARED_AGE: measuring_sources.prepared_age,
    _K.LONG_TRANSACTION: measuring_sources.long_transaction,
    _K.SOURCE_UNREACHABLE: measuring_sources.source_unreachable,
}


@dataclass
class Measures:
    """Measures each kind once, for all rules of that kind."""

    sight: Sight
    _found: dict[str, list[Measured]] = field(default_factory=dict)

    def of(self, rule: AlertRule, overridden: set[int]) -> list[Measured]:
        """What concerns this rule: not the slots that have a rule of their own instead."""
        if rule.kind not in self._found:
            found = MEASURES[rule.kind](self.sight)
            self._found[rule.kind] = [self._named_fully(measured) for measured in found]
        found = self._found[rule.kind]
        if rule.slot_id is not None:
            return [measured for measured in found if measured.slot_id == rule.slot_id]
        return [
            measured
            for measured in found
            if measured.slot_id not in overridden and not measured.only_own_rule
        ]

    def _named_fully(self, measured: Measured) -> Measured:
        """A slot that several sources lead to is told with all of its names."""
        also = self.sight.also_seen_as.get(measured.slot_id) if measured.slot_id else None
        if not also:
            return measured
        return replace(measured, detail={**measured.detail, "also_seen_as": ", ".join(also)})
