"""The base classes of kinds that measure sources."""

import datetime as dt
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from replview.features.alerts.amounts import Unit
from replview.features.alerts.kinds.base import MeasuredKind
from replview.features.alerts.measured import Measured, MeasuredPoint, MeasuredSeries
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import AlertRule, Source, SourceSample


class SourceKind(MeasuredKind):
    """A kind that measures a number of seconds of each source."""

    unit = Unit.SECONDS

    @abstractmethod
    def past_points(self, samples: Sequence[SourceSample]) -> list[MeasuredPoint]:
        """Return the values that the samples of one source show; both are oldest first."""

    def past_series(
        self, rule: AlertRule, since: dt.datetime, until: dt.datetime
    ) -> list[MeasuredSeries] | None:
        """Return the values of each source."""
        names = dict(Source.objects.values_list("pk", "name"))
        samples: dict[int, list[SourceSample]] = {pk: [] for pk in names}
        rows = SourceSample.objects.filter(sampled_at__gte=since, sampled_at__lte=until)
        for sample in rows.filter(source_id__in=names).order_by("sampled_at"):
            samples[sample.source_id].append(sample)
        return [
            MeasuredSeries(name, self.past_points(samples[pk]))
            for pk, name in names.items()
            if samples[pk]
        ]


class OldestTransactionKind(SourceKind):
    """A kind that measures the age of the oldest transaction of a server."""

    #: ``prepared`` or ``running``: the column of samples that lists the transactions.
    column: ClassVar[str]
    #: Name of the start time in the rows of ``column``.
    start_field: ClassVar[str]
    #: Names of values in these rows that an alert stores.
    detail_fields: ClassVar[tuple[str, ...]]

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield for each source the age in seconds of its oldest transaction, or 0.

        A role that may not see other sessions gets no start times for them. Then only visible
        transactions count, and if there are none, the value is unknown.
        """
        for source in snapshot.servers:
            look = snapshot.looks.get(source.pk)
            fresh = look is not None and snapshot.fresh(look.looked_at)
            rows: list[dict[str, Any]] | None = getattr(look, self.column) if fresh else None
            started = [
                (dt.datetime.fromisoformat(row[self.start_field]), row)
                for row in rows or ()
                if row.get(self.start_field)
            ]
            if not started:
                yield measured_source(source, None if rows is None or rows else 0.0)
                continue
            since, oldest = min(started, key=lambda pair: pair[0])
            seconds = max((snapshot.now - since).total_seconds(), 0.0)
            yield measured_source(source, seconds, detail=self.detail(oldest, len(rows or ())))

    def detail(self, oldest: dict[str, Any], count: int) -> dict[str, Any]:
        """Return further values that an alert stores, of the oldest of ``count`` transactions."""
        return {name: oldest.get(name) for name in self.detail_fields}

    def past_points(self, samples: Sequence[SourceSample]) -> list[MeasuredPoint]:
        """Return the age of the oldest transaction in each sample."""
        return [
            (
                sample.sampled_at,
                0.0
                if getattr(sample, self.column) == 0
                else getattr(sample, f"oldest_{self.column}_seconds"),
            )
            for sample in samples
        ]


def measured_source(source: Source, value: float | None, **fields: Any) -> Measured:
    """Return the value of a source."""
    return Measured(
        subject=f"source:{source.pk}", value=value, name=source.name, source_id=source.pk, **fields
    )
