"""The alert kind *published tables*."""

from collections.abc import Iterator

from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SlotKind, measured_own_slot
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.health.findings_received import recent_lapse
from replview.store.models import AlertRule


class PublishedTables(SlotKind):
    """A table is no longer published as before."""

    key = "published_tables"
    word = "Published tables"
    about = (
        "A table was taken out of the slot's publications, or published otherwise than before: "
        "changes of it may be missing. Over ten minutes after the last such change."
    )
    remedy = (
        "If it was not meant, publish the table again; take a baseline of it, so that its rows "
        "are known again."
    )
    built_in = (
        BuiltInRule(
            key="published", name="Published tables changed", severity=AlertRule.Severity.LOOK
        ),
    )

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield 1 for a slot whose publications recently lost or changed a table, else 0."""
        for slot in snapshot.ours:
            lapse = recent_lapse(slot, snapshot.now)
            detail = {"lapse": lapse} if lapse else {}
            yield measured_own_slot(slot, float(bool(lapse)), detail=detail)

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence that says which table changed."""
        return f"{measured.name}: {measured.detail.get('lapse')}"
