"""The alert kind *prepared transaction*."""

from typing import Any

from replview.features.alerts.amounts import amount_words
from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.source_base import OldestTransactionKind
from replview.features.alerts.measured import Measured
from replview.store.models import AlertRule


class PreparedAge(OldestTransactionKind):
    """A prepared transaction stays open."""

    key = "prepared_age"
    word = "Prepared transaction"
    about = (
        "Age of the oldest transaction that waits for COMMIT PREPARED or ROLLBACK PREPARED, "
        "of all databases of the server."
    )
    remedy = "Commit it or roll it back: it holds WAL, locks and vacuum. In flight has the SQL."
    built_in = (
        BuiltInRule(
            key="prepared",
            name="Prepared transaction open",
            severity=AlertRule.Severity.LOOK,
            threshold=300.0,
        ),
    )
    column = "prepared"
    start_field = "prepared_at"
    detail_fields = ("gid", "owner", "database")

    def detail(self, oldest: dict[str, Any], count: int) -> dict[str, Any]:
        """Return the oldest transaction's identifier, and the number of all."""
        return {**super().detail(oldest, count), "prepared": count}

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the age."""
        amount = amount_words(measured.value, self.unit)
        return f"A prepared transaction on {measured.name} has been open for {amount}."
