"""The alert kind *source unreachable*."""

import datetime as dt
from collections.abc import Iterator, Sequence

from replview.features.alerts.amounts import amount_words
from replview.features.alerts.kinds.base import BuiltInRule, problem_text
from replview.features.alerts.kinds.source_base import SourceKind, measured_source
from replview.features.alerts.measured import Measured, MeasuredPoint
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import AlertRule, SourceSample


class SourceUnreachable(SourceKind):
    """A source does not answer."""

    key = "source_unreachable"
    word = "Source unreachable"
    about = "How long ago the source last told its state; all that is known of it is that old."
    remedy = "See whether the server runs and lets replview in; Sources says what it answered."
    built_in = (
        BuiltInRule(
            key="unreachable",
            name="Source unreachable",
            severity=AlertRule.Severity.NOW,
            threshold=30.0,
        ),
    )

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield the seconds since each source last answered; 0 if it answers."""
        silent_ids = [source.pk for source in snapshot.sources if source.problem_code]
        reached = snapshot.reached_at(silent_ids) if silent_ids else {}
        for source in snapshot.sources:
            # Without recent samples the state is unknown.
            value = 0.0 if snapshot.fresh(source.checked_at) else None
            if source.problem_code:
                since = reached.get(source.pk, source.created_at)
                value = max((snapshot.now - since).total_seconds(), 0.0)
            yield measured_source(source, value, detail={"problem": source.problem_code})

    def past_points(self, samples: Sequence[SourceSample]) -> list[MeasuredPoint]:
        """Return at each sample the seconds since the first of a run of failed samples."""
        points: list[MeasuredPoint] = []
        silent_since: dt.datetime | None = None
        for sample in samples:
            silent_since = None if sample.reachable else silent_since or sample.sampled_at
            seconds = (sample.sampled_at - (silent_since or sample.sampled_at)).total_seconds()
            points.append((sample.sampled_at, seconds))
        return points

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the time and the problem."""
        amount = amount_words(measured.value, self.unit)
        return f"{measured.name} has not answered for {amount}{problem_text(measured.detail)}."
