"""Try a rule on the samples of the past hour: when it would have fired, and for what."""

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from replview.features.alerts.evaluation import advance, begin, worse
from replview.features.alerts.kinds import kind_of
from replview.features.alerts.measured import Episode, MeasuredPoint, MeasuredSeries
from replview.store.models import Alert, AlertRule

WINDOW = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrial:
    """The result of trying a rule."""

    since: dt.datetime
    until: dt.datetime
    episodes: list[Episode] = field(default_factory=list)
    #: True when the store records the episodes themselves, so that no samples were needed.
    recorded: bool = False
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
    kind = kind_of(rule)
    if not kind.known:
        return RuleTrial(since=since, until=until, refusal=kind.about)
    recorded_episodes = kind.past_episodes(rule, since, until)
    if recorded_episodes is not None:
        return RuleTrial(since=since, until=until, episodes=recorded_episodes, recorded=True)
    all_series = kind.past_series(rule, since, until)
    if all_series is None:
        refusal = "This kind cannot be tried: the store keeps no samples of it."
        return RuleTrial(since=since, until=until, refusal=refusal)
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


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else float(value)
