"""The alert kind *lag*."""

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds.base import BuiltInRule
from replview.features.alerts.kinds.slot_base import SampledSlotKind
from replview.features.alerts.measured import Measured
from replview.health import conditions
from replview.store.models import AlertRule, WatchedSlot

_MINUTE = 60.0


class Lag(SampledSlotKind):
    """A slot's consumer lags behind."""

    key = "lag"
    word = "Lag"
    about = (
        "How long ago the newest WAL that the slot's consumer confirmed was written on the "
        "source (replay_lag of pg_stat_replication). Unknown while nobody reads the slot."
    )
    remedy = "Check whether the consumer is slow, or a large transaction is being sent."
    unit = Unit.SECONDS
    built_in = (
        BuiltInRule(
            key="lag_look",
            name="Lag over a minute",
            severity=AlertRule.Severity.LOOK,
            threshold=_MINUTE,
            clear_threshold=30.0,
            clear_seconds=4.0,
        ),
        BuiltInRule(
            key="lag_now",
            name="Lag over 15 minutes",
            severity=AlertRule.Severity.NOW,
            threshold=15 * _MINUTE,
            clear_threshold=10 * _MINUTE,
            clear_seconds=4.0,
        ),
    )

    def value(self, slot: WatchedSlot, observation: conditions.Observation) -> float | None:
        """Return the seconds by which the consumer lags."""
        return conditions.lag_seconds(slot, observation)

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the lag."""
        return f"{measured.name} lags by {amount_words(measured.value, self.unit)}."
