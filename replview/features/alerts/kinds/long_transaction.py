"""The alert kind *long transaction*."""

from replview.features.alerts.amounts import amount_words
from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.source_base import OldestTransactionKind
from replview.features.alerts.measured import Measured
from replview.store.models import AlertRule


class LongTransaction(OldestTransactionKind):
    """A transaction runs for a long time."""

    key = "long_transaction"
    word = "Long transaction"
    about = "Age of the oldest transaction that has an xid or a snapshot."
    remedy = "End it, or wait: every slot must keep WAL from its beginning on, and vacuum waits."
    built_in = (
        BuiltInRule(
            key="long_transaction",
            name="Long transaction",
            severity=AlertRule.Severity.LOOK,
            threshold=1800.0,
        ),
    )
    column = "running"
    start_field = "xact_started_at"
    detail_fields = ("pid", "role", "application_name", "database", "state")

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the age."""
        amount = amount_words(measured.value, self.unit)
        return f"A transaction on {measured.name} has been running for {amount}."
