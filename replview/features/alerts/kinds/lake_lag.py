"""The alert kind *lake behind*."""

from collections.abc import Iterator

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds.base import BuiltInRule, MeasuredKind
from replview.features.alerts.kinds.lake_base import measured_lake
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.health.lake_lag import lag_of
from replview.store.models import AlertRule, LakeRelation
from replview.text.formats import plural

_HOUR = 3600.0


class LakeLag(MeasuredKind):
    """A lake is far behind the store."""

    key = "lake_lag"
    word = "Lake behind"
    about = (
        "How long ago the oldest stored change was committed that a lake has not read, of the "
        "table that is furthest behind. Unknown before the lake's first run."
    )
    remedy = "Run the lake more often, give its runs more of the machine, or see why they fail."
    unit = Unit.SECONDS
    built_in = (
        BuiltInRule(
            key="lake_lag",
            name="Lake over an hour behind",
            severity=AlertRule.Severity.LOOK,
            threshold=_HOUR,
            clear_threshold=_HOUR / 2,
        ),
    )

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield for each lake the age of the oldest change that it lacks, or 0."""
        for lake in snapshot.lakes:
            relations = [one for one in lake.relations.all() if one.reported_at is not None]
            pairs = [_seconds_and_changes(relation) for relation in relations]
            known = [pair for pair in pairs if pair is not None]
            seconds, changes = max(known, default=(None, 0))
            yield measured_lake(lake, seconds, detail={"changes": changes} if changes else {})

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the lag."""
        changes = measured.detail.get("changes")
        amount = f" ({plural(changes, 'change')} of a table)" if changes else ""
        return f"{measured.name} is {amount_words(measured.value, self.unit)} behind{amount}."


def _seconds_and_changes(relation: LakeRelation) -> tuple[float, int] | None:
    """Return the lag of a table; None where it is unknown."""
    lag = lag_of(relation)
    if lag is None or (lag.seconds is None and (lag.changes or lag.more)):
        return None
    return lag.seconds or 0.0, lag.changes
