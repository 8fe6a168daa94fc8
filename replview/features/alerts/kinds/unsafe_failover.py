"""The alert kind *unsafe failover*."""

from collections.abc import Iterator

from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SlotKind, measured_slot
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import AlertRule


class UnsafeFailover(SlotKind):
    """The server of a failover slot does not wait for its standbys."""

    key = "unsafe_failover"
    word = "Unsafe failover"
    about = (
        "A slot is to survive a failover, and synchronized_standby_slots is empty: the "
        "record can then hold transactions that the promoted server never had."
    )
    remedy = "Name the standbys' physical slots in synchronized_standby_slots."
    built_in = (
        BuiltInRule(key="failover", name="Unsafe failover", severity=AlertRule.Severity.LOOK),
    )

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield for each failover slot 1 if its server does not wait for standbys, else 0."""
        for slot in snapshot.existing_slots:
            look = snapshot.looks.get(slot.source_id)
            if slot.facts.get("failover") is not True or slot.facts.get("synced") is True:
                continue
            fresh = look is not None and snapshot.fresh(look.looked_at)
            holders = (look.holders or {}) if look is not None and fresh else {}
            names = (holders.get("failover_settings") or {}).get("synchronized_standby_slots")
            yield measured_slot(slot, None if names is None else float(not str(names).strip()))

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence that names the empty setting."""
        return f"A failover of {measured.name} is not safe: synchronized_standby_slots is empty."
