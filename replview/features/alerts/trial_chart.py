"""The trial of a rule as its page shows it: a sentence, a chart, and the episodes."""

import datetime as dt
from dataclasses import dataclass

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds import kind_of
from replview.features.alerts.measured import Episode
from replview.features.alerts.trial import RuleTrial, try_rule
from replview.store.models import AlertRule
from replview.text.formats import age_words, plural

WIDTH, HEIGHT, PAD = 720, 112, 6
EPISODES_SHOWN = 50
#: Distance between two samples above which the line has a gap.
_GAP = dt.timedelta(seconds=60)
#: Maximum number of points: one per pixel.
_POINTS_LIMIT = 720


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLine:
    """An episode in which the rule would have fired, as a line of the list."""

    episode: Episode
    #: The length of the episode; empty if the alert would still be firing.
    duration: str
    #: The worst value; empty for a kind that has none.
    worst: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The chart of a trial: coordinates in a box of ``width`` by ``height``."""

    #: ``x,y x,y …``; a gap in the samples ends a line.
    lines: list[str]
    #: None if the rule has no threshold.
    threshold_y: float | None
    #: ``(x, width)`` of the drawn subject's episodes.
    spans: list[tuple[float, float]]
    #: The highest value, in words.
    highest: str
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """The trial of a rule: a sentence, a chart, and the episodes."""

    trial: RuleTrial
    sentence: str
    lines: list[EpisodeLine]
    #: Number of episodes that are not listed.
    more: int
    #: None if there is nothing to draw.
    drawing: Drawing | None


def trial_view(rule: AlertRule) -> TrialView:
    """Try the rule, and prepare the result for the page."""
    trial, unit = try_rule(rule), kind_of(rule).unit
    lines = [
        EpisodeLine(
            episode=episode,
            duration=""
            if episode.cleared_at is None
            else age_words(episode.cleared_at - episode.fired_at),
            worst="" if unit == Unit.YES_NO else amount_words(episode.worst, unit),
        )
        for episode in trial.episodes[:EPISODES_SHOWN]
    ]
    return TrialView(
        trial=trial,
        sentence=_sentence(trial),
        lines=lines,
        more=max(len(trial.episodes) - EPISODES_SHOWN, 0),
        drawing=_draw(rule, trial) if unit != Unit.YES_NO and trial.points else None,
    )


def _sentence(trial: RuleTrial) -> str:
    if trial.refusal:
        return trial.refusal
    if not trial.subjects and not trial.recorded:
        return "There are no samples of the past hour."
    scope = "" if trial.recorded else f" on {plural(trial.subjects, 'subject')} looked at"
    if not trial.episodes:
        return f"In the past hour it would not have fired{scope}."
    return f"In the past hour it would have fired {plural(len(trial.episodes), 'time')}{scope}."


def _draw(rule: AlertRule, trial: RuleTrial) -> Drawing | None:
    """Draw the known values; return None if there are none."""
    values = [value for _, value in trial.points if value is not None]
    if not values:
        return None
    top = max(*values, rule.threshold or 0, 1e-9) * 1.08
    length = (trial.until - trial.since).total_seconds()

    def x(moment: dt.datetime) -> float:
        return round(min(max((moment - trial.since).total_seconds() / length, 0), 1) * WIDTH, 1)

    def y(value: float) -> float:
        return round(HEIGHT - PAD - (HEIGHT - 2 * PAD) * min(value / top, 1), 1)

    runs: list[list[str]] = [[]]
    previous: dt.datetime | None = None
    step = max(len(trial.points) // _POINTS_LIMIT, 1)
    for moment, value in trial.points[::step]:
        if value is None or (previous is not None and moment - previous > _GAP * step):
            runs.append([])
        if value is not None:
            runs[-1].append(f"{x(moment)},{y(value)}")
            previous = moment
    spans = [
        (
            x(episode.fired_at),
            max(round(x(episode.cleared_at or trial.until) - x(episode.fired_at), 1), 2),
        )
        for episode in trial.episodes
        if episode.name == trial.shown
    ]
    return Drawing(
        lines=[" ".join(run) for run in runs if len(run) > 1],
        threshold_y=None if rule.threshold is None else y(rule.threshold),
        spans=spans,
        highest=amount_words(max(values), kind_of(rule).unit),
    )
