"""Measure each kind of rule once, for all its rules; None is unknown."""

from dataclasses import dataclass, field, replace

from replview.features.alerts.kinds.base import MeasuredKind
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import AlertRule


@dataclass
class Measures:
    """The measured values; each kind is measured once for all its rules."""

    snapshot: StoreSnapshot
    _by_kind: dict[str, list[Measured]] = field(default_factory=dict)

    def of(self, kind: MeasuredKind, rule: AlertRule, overridden: set[int]) -> list[Measured]:
        """Return the values for this rule, without slots that have a rule of their own."""
        if kind.key not in self._by_kind:
            results = kind.measure(self.snapshot)
            self._by_kind[kind.key] = [self._named_fully(measured) for measured in results]
        values = self._by_kind[kind.key]
        if rule.slot_id is not None:
            return [measured for measured in values if measured.slot_id == rule.slot_id]
        return [
            measured
            for measured in values
            if measured.slot_id not in overridden and not measured.only_own_rule
        ]

    def _named_fully(self, measured: Measured) -> Measured:
        """Add to the details the slot's names through other sources of the same server."""
        other_names = self.snapshot.also_seen_as.get(measured.slot_id) if measured.slot_id else None
        if not other_names:
            return measured
        return replace(measured, detail={**measured.detail, "also_seen_as": ", ".join(other_names)})
