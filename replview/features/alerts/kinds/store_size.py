"""The alert kind *store size*."""

from collections.abc import Iterator

from replview.features.alerts.amounts import Unit, amount_words, sizes_text
from replview.features.alerts.kinds.base import BuiltInRule, MeasuredKind
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.django_session import rows
from replview.store.instance_settings import read
from replview.store.models import AlertRule


class StoreSize(MeasuredKind):
    """The store occupies much of its budget."""

    key = "store_size"
    word = "Store size"
    about = "What replview's store occupies, as a share of its budget, where one is set."
    remedy = "Keep less (retention), raise the budget, or give the store more room."
    unit = Unit.SHARE
    built_in = (
        BuiltInRule(
            key="store_size",
            name="Store near its budget",
            severity=AlertRule.Severity.LOOK,
            threshold=0.8,
            clear_threshold=0.75,
        ),
    )

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield the store's size as a share of its budget; yield nothing without a budget."""
        budget = read("store.budget_bytes", None)
        if isinstance(budget, bool) or not isinstance(budget, int | float) or budget <= 0:
            return
        ((size,),) = rows("SELECT pg_database_size(current_database())")
        detail = {"store_bytes": size, "budget_bytes": budget}
        yield Measured(subject="store", value=size / budget, name="The store", detail=detail)

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the share and both sizes."""
        amount = amount_words(measured.value, self.unit)
        sizes = sizes_text(measured.detail, "store_bytes", "budget_bytes")
        return f"{measured.name} has used {amount} of its budget{sizes}."
