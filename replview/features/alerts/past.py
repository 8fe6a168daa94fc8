"""What the past samples tell in each kind's unit, a series a subject: to try a rule against."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from replview.features.alerts.snapshot import past_samples
from replview.health.conditions import (
    GROWTH_LEAST,
    GROWTH_WINDOW,
    MEASURES,
    Observation,
    concerns,
    unread_seconds,
)
from replview.store.models import AlertRule, Source, SourceSample, WatchedSlot

_K = AlertRule.Kind
#: More rows than about this are not read: with very many slots, the samples are thinned out.
_ROWS_LIMIT = 100_000
Row = dict[str, Any]
Point = tuple[dt.datetime, float | None]
Measure = Callable[[WatchedSlot, Observation], float | None]


@dataclass
class Series:
    """What was measured of one subject, oldest first."""

    name: str
    slot_id: int | None = None
    points: list[Point] = field(default_factory=list)


def read_past(
    rule: AlertRule, overridden: Iterable[int], since: dt.datetime, until: dt.datetime
) -> list[Series]:
    """A series of each subject the rule concerns."""
    if rule.kind in _OF_SOURCES:
        return _sources(_OF_SOURCES[_K(rule.kind)], since, until)
    slots = WatchedSlot.objects.select_related("source", "slot").exclude(pk__in=list(overridden))
    if rule.slot_id is not None:
        slots = slots.filter(pk=rule.slot_id)
    own_rule = rule.slot_id is not None
    rows = [row for row in slots if concerns(rule.kind, row, own_rule=own_rule)]
    return _slots(_OF_SLOTS[rule.kind], rows, since, until)


def _slots(
    measure: Measure, slots: list[WatchedSlot], since: dt.datetime, until: dt.datetime
) -> list[Series]:
    seconds = (until - since).total_seconds()
    thinned = max(1.0, len(slots) * seconds / _ROWS_LIMIT)
    by_slot: dict[int, list[Row]] = {slot.pk: [] for slot in slots}
    for row in past_samples(list(by_slot), since, until, dt.timedelta(seconds=thinned)):
        by_slot[row["slot_id"]].append(row)
    return [
        Series(
            f"{slot.source.name}/{slot.name}",
            slot.pk,
            [(seen.at, measure(slot, seen)) for seen in _observations(by_slot[slot.pk])],
        )
        for slot in slots
        if by_slot[slot.pk]
    ]


def _observations(rows: list[Row]) -> Iterator[Observation]:
    """The samples of one slot, oldest first, with what each adds to those before it."""
    first, since = 0, None
    for row in rows:
        while row["at"] - rows[first]["at"] > GROWTH_WINDOW:
            first += 1
        if row["active"]:
            since = None
        elif row["active"] is False:
            # Since the server says, or since the first sample that saw nobody read it.
            reported = row["inactive_since"]
            since = since or (dt.datetime.fromisoformat(reported) if reported else row["at"])
        yield Observation(
            at=row["at"],
            facts=row,
            inactive_since=since,
            growth_bytes_per_second=_growth(rows[first], row),
        )


def _growth(older: Row, row: Row) -> float | None:
    span: dt.timedelta = row["at"] - older["at"]
    before, after = older["retained_wal_bytes"], row["retained_wal_bytes"]
    if span < GROWTH_LEAST or before is None or after is None:
        return None
    return float(after - before) / span.total_seconds()


def _sources(column: str, since: dt.datetime, until: dt.datetime) -> list[Series]:
    names = dict(Source.objects.values_list("pk", "name"))
    found = {pk: Series(name) for pk, name in names.items()}
    silent: dict[int, dt.datetime] = {}
    for sample in SourceSample.objects.filter(
        sampled_at__gte=since, sampled_at__lte=until
    ).order_by("sampled_at"):
        series = found.get(sample.source_id)
        if series is None:
            continue
        if column == "":
            series.points.append((sample.sampled_at, _silent_for(silent, sample)))
            continue
        oldest, count = getattr(sample, f"oldest_{column}_seconds"), getattr(sample, column)
        series.points.append((sample.sampled_at, 0.0 if count == 0 else oldest))
    return [series for series in found.values() if series.points]


def _silent_for(silent: dict[int, dt.datetime], sample: SourceSample) -> float:
    if sample.reachable:
        silent.pop(sample.source_id, None)
        return 0.0
    began = silent.setdefault(sample.source_id, sample.sampled_at)
    return (sample.sampled_at - began).total_seconds()


#: No sample says how a receiver was: where nobody read the slot, there was none.
_OF_SLOTS: dict[str, Measure] = {**MEASURES, _K.RECEIVER_DOWN: unread_seconds}
#: The columns of source samples; empty: whether it was reached.
_OF_SOURCES = {
    _K.PREPARED_AGE: "prepared",
    _K.LONG_TRANSACTION: "running",
    _K.SOURCE_UNREACHABLE: "",
}
#: Kinds that past samples tell of.
TRIED = {*_OF_SLOTS, *_OF_SOURCES}
