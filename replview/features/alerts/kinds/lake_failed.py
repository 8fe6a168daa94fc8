"""The alert kind *lake run failed*."""

from collections.abc import Iterator

from replview.features.alerts.kinds.base import BuiltInRule, MeasuredKind
from replview.features.alerts.kinds.lake_base import measured_lake
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import AlertRule, LakeRun


class LakeFailed(MeasuredKind):
    """The last run of a lake failed."""

    key = "lake_failed"
    word = "Lake run failed"
    about = "Whether the last run of a lake that ended by itself failed."
    remedy = "See the lake's page for the table, the cause and the remedy; then run it again."
    built_in = (
        BuiltInRule(key="lake_failed", name="Lake run failed", severity=AlertRule.Severity.LOOK),
    )

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield for each lake that was run whether its last run failed."""
        ended = (LakeRun.State.DONE, LakeRun.State.FAILED)
        for lake in snapshot.lakes:
            run = lake.runs.filter(state__in=ended).first()
            if run is not None:
                yield measured_lake(lake, float(run.state == LakeRun.State.FAILED))

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence, without the cause, which may name a table."""
        return f"{measured.name}: its last run failed."
