"""Try a rule on the samples of the past hour: when it would have fired, and for what."""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from replview.features.alerts.evaluation import advance, begin, worse
from replview.features.alerts.kinds import kind_of
from replview.features.alerts.measured import Episode, MeasuredPoint, MeasuredSeries
from replview.features.alerts.past_slots import past_observations
from replview.features.alerts.schema_changes import matches
from replview.health.conditions import (
    MEASURES,
    Observation,
    concerns,
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

TrialMeasure = Callable[[WatchedSlot, Observation], float | None]
#: Samples do not contain the receiver's state: an inactive slot counts as without a receiver.
_SLOT_MEASURES: dict[str, TrialMeasure] = {**MEASURES, AlertRule.Kind.RECEIVER_DOWN: unread_seconds}
#: Column prefixes of source samples; empty stands for whether the source was reached.
_SOURCE_COLUMNS = {
    AlertRule.Kind.PREPARED_AGE: "prepared",
    AlertRule.Kind.LONG_TRANSACTION: "running",
    AlertRule.Kind.SOURCE_UNREACHABLE: "",
}
#: Kinds that can be measured from past samples.
TRIED = {*_SLOT_MEASURES, *_SOURCE_COLUMNS}
WINDOW = dt.timedelta(hours=1)
_K = AlertRule.Kind
_EVENTS_LIMIT = 500


def read_past(
    rule: AlertRule, overridden: Iterable[int], since: dt.datetime, until: dt.datetime
) -> list[MeasuredSeries]:
    """Return a series for each subject that the rule concerns."""
    if rule.kind in _SOURCE_COLUMNS:
        return _source_series(_SOURCE_COLUMNS[AlertRule.Kind(rule.kind)], since, until)
    watched = WatchedSlot.objects.select_related("source", "slot").exclude(pk__in=list(overridden))
    if own_rule := rule.slot_id is not None:
        watched = watched.filter(pk=rule.slot_id)
    slots = [slot for slot in watched if concerns(rule.kind, slot, own_rule=own_rule)]
    return _slot_series(_SLOT_MEASURES[rule.kind], slots, since, until)


def _slot_series(
    measure: TrialMeasure, slots: list[WatchedSlot], since: dt.datetime, until: dt.datetime
) -> list[MeasuredSeries]:
    return [
        MeasuredSeries(
            f"{slot.source.name}/{slot.name}",
            [(observation.at, measure(slot, observation)) for observation in observations],
        )
        for slot, observations in past_observations(slots, since, until)
    ]


def _source_series(column: str, since: dt.datetime, until: dt.datetime) -> list[MeasuredSeries]:
    names = dict(Source.objects.values_list("pk", "name"))
    series_by_source = {pk: MeasuredSeries(name) for pk, name in names.items()}
    silent_since: dict[int, dt.datetime] = {}
    samples = SourceSample.objects.filter(sampled_at__gte=since, sampled_at__lte=until)
    for sample in samples.filter(source_id__in=series_by_source).order_by("sampled_at"):
        if column == "":
            value = _silent_for(silent_since, sample)
        else:
            none = getattr(sample, column) == 0
            value = 0.0 if none else getattr(sample, f"oldest_{column}_seconds")
        series_by_source[sample.source_id].points.append((sample.sampled_at, value))
    return [series for series in series_by_source.values() if series.points]


def _silent_for(silent_since: dict[int, dt.datetime], sample: SourceSample) -> float:
    if sample.reachable:
        silent_since.pop(sample.source_id, None)
        return 0.0
    since = silent_since.setdefault(sample.source_id, sample.sampled_at)
    return (sample.sampled_at - since).total_seconds()


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
            since=since, until=until, episodes=list(_schema_change_episodes(rule, since, until))
        )
    if rule.kind == _K.POISON_CHANGE:
        return RuleTrial(
            since=since, until=until, episodes=list(_quarantine_episodes(since, until))
        )
    if rule.kind not in TRIED:
        refusal = "This kind cannot be tried: the store keeps no samples of it."
        return RuleTrial(since=since, until=until, refusal=refusal)
    overridden: set[int] = set()
    if rule.pk is not None and rule.slot_id is None:
        own_rules = AlertRule.objects.filter(overrides=rule.pk, slot__isnull=False)
        overridden = set(own_rules.values_list("slot_id", flat=True))
    all_series = read_past(rule, overridden, since, until)
    episodes = [episode for series in all_series for episode in _episodes(rule, series)]
    episodes.sort(key=lambda episode: episode.fired_at, reverse=True)
    worst = _worst(rule, all_series, episodes)
    return RuleTrial(
        since=since,
        until=until,
        episodes=episodes,
        subjects=len(all_series),
        shown=worst.name if worst else "",
        points=[(moment, _finite(value)) for moment, value in worst.points] if worst else [],
    )


def _episodes(rule: AlertRule, series: MeasuredSeries) -> Iterator[Episode]:
    alert: Alert | None = None
    for moment, value in series.points:
        if alert is None:
            alert = begin(rule, series.name, value, moment)
            continue
        advance(alert, rule, value, moment)
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
    rule: AlertRule, all_series: list[MeasuredSeries], episodes: list[Episode]
) -> MeasuredSeries | None:
    """Return the series with the worst value, among those that would have fired if any would."""
    fired = {episode.name for episode in episodes}
    worst: tuple[float, MeasuredSeries] | None = None
    for series in all_series:
        value: float | None = None
        for _, sample in series.points:
            value = worse(rule, value, _finite(sample))
        if value is None or (fired and series.name not in fired):
            continue
        if worst is None or worse(rule, value, worst[0]) == value != worst[0]:
            worst = value, series
    return worst[1] if worst else None


def _schema_change_episodes(
    rule: AlertRule, since: dt.datetime, until: dt.datetime
) -> Iterator[Episode]:
    events = SlotEvent.objects.filter(
        kind="schema", at__gt=since, at__lte=until, slot__isnull=False
    ).order_by("-at")[:_EVENTS_LIMIT]
    relation_ids = {event.detail.get("relation_id") for event in events}
    relation_ids = {relation_id for relation_id in relation_ids if isinstance(relation_id, int)}
    relations = Relation.objects.select_related("slot__source").in_bulk(relation_ids)
    for event in events:
        relation = relations.get(event.detail.get("relation_id"))
        if relation is not None and matches(rule.tables, str(relation)):
            name = f"{relation} of {relation.slot}"
            yield Episode(name=name, fired_at=event.at, cleared_at=event.at, worst=None)


def _quarantine_episodes(since: dt.datetime, until: dt.datetime) -> Iterator[Episode]:
    quarantines = Quarantine.objects.filter(found_at__lte=until).select_related("slot__source")
    for quarantine in quarantines.defer("raw").order_by("-found_at")[:_EVENTS_LIMIT]:
        if quarantine.settled_at is None or quarantine.settled_at > since:
            fired_at = max(quarantine.found_at, since)
            yield Episode(
                name=str(quarantine.slot),
                fired_at=fired_at,
                cleared_at=quarantine.settled_at,
                worst=None,
            )


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else float(value)
