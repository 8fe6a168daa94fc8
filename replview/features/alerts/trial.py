"""Try a rule on the samples of the past hour: when it would have fired, and for what."""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from replview.features.alerts.evaluation import advance, begin, worse
from replview.features.alerts.kinds import kind_of
from replview.features.alerts.schema_changes import matches
from replview.features.alerts.snapshot import past_samples
from replview.health.conditions import (
    GROWTH_LEAST,
    GROWTH_WINDOWS,
    MEASURES,
    Observation,
    concerns,
    growth_of,
    unread_seconds,
)
from replview.store.models import (
    Alert,
    AlertRule,
    Quarantine,
    Relation,
    SlotEvent,
    Source,
    SourceSample,
    WatchedSlot,
)

#: Approximate maximum of rows that are read; with many slots, fewer samples per slot are read.
_ROWS_LIMIT = 100_000
SampleRow = dict[str, Any]
MeasuredPoint = tuple[dt.datetime, float | None]
TrialMeasure = Callable[[WatchedSlot, Observation], float | None]
#: Samples do not contain the receiver's state: an inactive slot counts as without a receiver.
_OF_SLOTS: dict[str, TrialMeasure] = {**MEASURES, AlertRule.Kind.RECEIVER_DOWN: unread_seconds}
#: Column prefixes of source samples; empty stands for whether the source was reached.
_OF_SOURCES = {
    AlertRule.Kind.PREPARED_AGE: "prepared",
    AlertRule.Kind.LONG_TRANSACTION: "running",
    AlertRule.Kind.SOURCE_UNREACHABLE: "",
}
#: Kinds that can be measured from past samples.
TRIED = {*_OF_SLOTS, *_OF_SOURCES}
WINDOW = dt.timedelta(hours=1)
_K = AlertRule.Kind
_LINES_READ = 500


@dataclass
class MeasuredSeries:
    """The measured values of one subject, oldest first."""

    name: str
    points: list[MeasuredPoint] = field(default_factory=list)


def read_past(
    rule: AlertRule, overridden: Iterable[int], since: dt.datetime, until: dt.datetime
) -> list[MeasuredSeries]:
    """Return a series for each subject that the rule concerns."""
    if rule.kind in _OF_SOURCES:
        return _sources(_OF_SOURCES[AlertRule.Kind(rule.kind)], since, until)
    slots = WatchedSlot.objects.select_related("source", "slot").exclude(pk__in=list(overridden))
    if own_rule := rule.slot_id is not None:
        slots = slots.filter(pk=rule.slot_id)
    rows = [row for row in slots if concerns(rule.kind, row, own_rule=own_rule)]
    return _slots(_OF_SLOTS[rule.kind], rows, since, until)


def _slots(
    measure: TrialMeasure, slots: list[WatchedSlot], since: dt.datetime, until: dt.datetime
) -> list[MeasuredSeries]:
    seconds = (until - since).total_seconds()
    thinned = max(1.0, len(slots) * seconds / _ROWS_LIMIT)
    by_slot: dict[int, list[SampleRow]] = {slot.pk: [] for slot in slots}
    for row in past_samples(list(by_slot), since, until, dt.timedelta(seconds=thinned)):
        by_slot[row["slot_id"]].append(row)
    return [
        MeasuredSeries(
            f"{slot.source.name}/{slot.name}",
            [(seen.at, measure(slot, seen)) for seen in _observations(by_slot[slot.pk])],
        )
        for slot in slots
        if by_slot[slot.pk]
    ]


def _observations(rows: list[SampleRow]) -> Iterator[Observation]:
    """Yield the samples of one slot, oldest first, with growth and inactivity added."""
    first, since = dict.fromkeys(GROWTH_WINDOWS, 0), None
    for row in rows:
        for window in GROWTH_WINDOWS:
            while row["at"] - rows[first[window]]["at"] > window:
                first[window] += 1
        if row["active"]:
            since = None
        elif row["active"] is False:
            # Take the server's time, or the first sample in which the slot was inactive.
            reported = row["inactive_since"]
            since = since or (dt.datetime.fromisoformat(reported) if reported else row["at"])
        yield Observation(
            at=row["at"],
            facts=row,
            inactive_since=since,
            growth=growth_of([_growth(rows[first[window]], row) for window in GROWTH_WINDOWS]),
        )


def _growth(older: SampleRow, row: SampleRow) -> float | None:
    span: dt.timedelta = row["at"] - older["at"]
    before, after = older["retained_wal_bytes"], row["retained_wal_bytes"]
    if span < GROWTH_LEAST or before is None or after is None:
        return None
    return float(after - before) / span.total_seconds()


def _sources(column: str, since: dt.datetime, until: dt.datetime) -> list[MeasuredSeries]:
    names = dict(Source.objects.values_list("pk", "name"))
    found = {pk: MeasuredSeries(name) for pk, name in names.items()}
    silent: dict[int, dt.datetime] = {}
    samples = SourceSample.objects.filter(sampled_at__gte=since, sampled_at__lte=until)
    for sample in samples.filter(source_id__in=found).order_by("sampled_at"):
        if column == "":
            value = _silent_for(silent, sample)
        else:
            none = getattr(sample, column) == 0
            value = 0.0 if none else getattr(sample, f"oldest_{column}_seconds")
        found[sample.source_id].points.append((sample.sampled_at, value))
    return [series for series in found.values() if series.points]


def _silent_for(silent: dict[int, dt.datetime], sample: SourceSample) -> float:
    if sample.reachable:
        silent.pop(sample.source_id, None)
        return 0.0
    began = silent.setdefault(sample.source_id, sample.sampled_at)
    return (sample.sampled_at - began).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A period in which the rule would have fired."""

    name: str
    fired_at: dt.datetime
    #: None if the alert would still be firing.
    cleared_at: dt.datetime | None
    worst: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrial:
    """The result of trying a rule."""

    since: dt.datetime
    until: dt.datetime
    episodes: list[Episode] = field(default_factory=list)
    #: Number of slots or sources that had samples.
    subjects: int = 0
    #: Name of the series with the worst value.
    shown: str = ""
    #: Points of that series; infinite values are None.
    points: list[MeasuredPoint] = field(default_factory=list)
    #: The reason why the rule cannot be tried; empty if it was.
    refusal: str = ""


def try_rule(rule: AlertRule, now: dt.datetime | None = None) -> RuleTrial:
    """Try a rule on the past hour; the rule need not be saved."""
    until = now or dt.datetime.now(dt.UTC)
    since = until - WINDOW
    if not kind_of(rule).known:
        return RuleTrial(since=since, until=until, refusal=kind_of(rule).about)
    if rule.kind == _K.SCHEMA_CHANGE:
        return RuleTrial(
            since=since, until=until, episodes=list(_schema_changes(rule, since, until))
        )
    if rule.kind == _K.POISON_CHANGE:
        return RuleTrial(since=since, until=until, episodes=list(_poison_changes(since, until)))
    if rule.kind not in TRIED:
        refusal = "This kind cannot be tried: the store keeps no samples of it."
        return RuleTrial(since=since, until=until, refusal=refusal)
    overridden: set[int] = set()
    if rule.pk is not None and rule.slot_id is None:
        own = AlertRule.objects.filter(overrides=rule.pk, slot__isnull=False)
        overridden = set(own.values_list("slot_id", flat=True))
    series = read_past(rule, overridden, since, until)
    episodes = [episode for one in series for episode in _episodes(rule, one)]
    episodes.sort(key=lambda episode: episode.fired_at, reverse=True)
    shown = _worst(rule, series, episodes)
    return RuleTrial(
        since=since,
        until=until,
        episodes=episodes,
        subjects=len(series),
        shown=shown.name if shown else "",
        points=[(at, _finite(value)) for at, value in shown.points] if shown else [],
    )


def _episodes(rule: AlertRule, series: MeasuredSeries) -> Iterator[Episode]:
    alert: Alert | None = None
    for at, value in series.points:
        if alert is None:
            alert = begin(rule, series.name, value, at)
            continue
        advance(alert, rule, value, at)
        if alert.state == Alert.State.CLEARED:
            if alert.fired_at is not None:
                yield _episode(series, alert)
            alert = None
    if alert is not None and alert.fired_at is not None:
        yield _episode(series, alert)


def _episode(series: MeasuredSeries, alert: Alert) -> Episode:
    assert alert.fired_at is not None
    return Episode(
        name=series.name,
        fired_at=alert.fired_at,
        cleared_at=alert.cleared_at,
        worst=_finite(alert.value_worst),
    )


def _worst(
    rule: AlertRule, series: list[MeasuredSeries], episodes: list[Episode]
) -> MeasuredSeries | None:
    """Return the series with the worst value, among those that would have fired if any would."""
    fired = {episode.name for episode in episodes}
    best: tuple[float, MeasuredSeries] | None = None
    for one in series:
        value: float | None = None
        for _, each in one.points:
            value = worse(rule, value, _finite(each))
        if value is None or (fired and one.name not in fired):
            continue
        if best is None or worse(rule, value, best[0]) == value != best[0]:
            best = value, one
    return best[1] if best else None


def _schema_changes(rule: AlertRule, since: dt.datetime, until: dt.datetime) -> Iterator[Episode]:
    lines = SlotEvent.objects.filter(
        kind="schema", at__gt=since, at__lte=until, slot__isnull=False
    ).order_by("-at")[:_LINES_READ]
    numbers = {line.detail.get("relation_id") for line in lines}
    numbers = {number for number in numbers if isinstance(number, int)}
    tables = Relation.objects.select_related("slot__source").in_bulk(numbers)
    for line in lines:
        table = tables.get(line.detail.get("relation_id"))
        if table is not None and matches(rule.tables, str(table)):
            name = f"{table} of {table.slot}"
            yield Episode(name=name, fired_at=line.at, cleared_at=line.at, worst=None)


def _poison_changes(since: dt.datetime, until: dt.datetime) -> Iterator[Episode]:
    rows = Quarantine.objects.filter(found_at__lte=until).select_related("slot__source")
    for row in rows.defer("raw").order_by("-found_at")[:_LINES_READ]:
        if row.settled_at is None or row.settled_at > since:
            began = max(row.found_at, since)
            yield Episode(name=str(row.slot), fired_at=began, cleared_at=row.settled_at, worst=None)


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else float(value)
