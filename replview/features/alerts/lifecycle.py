"""The lifecycle of one alert, from the moment its condition holds until it is over. Pure.

A value that is unknown (None) changes nothing: it neither fires nor clears.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field

from replview.features.alerts.kinds import kind_of
from replview.store.models import Alert, AlertRule

_State = Alert.State


def holds(rule: AlertRule, value: float) -> bool:
    """Whether the rule's condition holds."""
    if rule.threshold is None:
        return value >= 1
    return value < rule.threshold if kind_of(rule).below else value >= rule.threshold


def is_over(rule: AlertRule, value: float) -> bool:
    """Whether it holds no longer, with the rule's margin (hysteresis)."""
    if holds(rule, value):
        return False
    if rule.clear_threshold is None or rule.threshold is None:
        return True
    return value >= rule.clear_threshold if kind_of(rule).below else value < rule.clear_threshold


def worse(rule: AlertRule, one: float | None, other: float | None) -> float | None:
    """The worse of two values."""
    known = [value for value in (one, other) if value is not None]
    if not known:
        return None
    return min(known) if kind_of(rule).below else max(known)


def begin(rule: AlertRule, subject: str, value: float | None, now: dt.datetime) -> Alert | None:
    """A new alert, where the condition holds; it may fire at once."""
    if value is None or not holds(rule, value):
        return None
    alert = Alert(rule=rule, subject=subject, state=_State.PENDING, began_at=now)
    advance(alert, rule, value, now)
    return alert


def advance(
    alert: Alert, rule: AlertRule, value: float | None, now: dt.datetime, *, gone: bool = False
) -> None:
    """One step on: its fields and state after this value.

    ``gone``: the subject is no longer there, and so the condition is over. A pending alert whose
    condition is over becomes cleared without ever having fired: it is to be forgotten.
    """
    if value is None and not gone:
        return
    if value is not None:
        alert.value_last = value
        alert.value_worst = worse(rule, alert.value_worst, value)
    if gone or (value is not None and is_over(rule, value)):
        _ending(alert, rule, now)
        return
    alert.over_since = None
    if (
        alert.state == _State.PENDING
        and value is not None
        and holds(rule, value)
        and (now - alert.began_at).total_seconds() >= rule.hold_seconds
    ):
        alert.state = _State.FIRING
        alert.fired_at = now
        alert.value_fired = value


def _ending(alert: Alert, rule: AlertRule, now: dt.datetime) -> None:
    if alert.over_since is None:
        alert.over_since = now
    over_seconds = (now - alert.over_since).total_seconds()
    if alert.state == _State.PENDING or over_seconds >= rule.clear_seconds:
        alert.state = _State.CLEARED
        alert.cleared_at = now


_NOW, _LOOK = AlertRule.Severity.NOW, AlertRule.Severity.LOOK


def furthest_first(rules: Iterable[AlertRule]) -> list[AlertRule]:
    """Of each kind those that are reached last come first."""

    def reach(rule: AlertRule) -> float:
        threshold = rule.threshold or 0.0
        return threshold if kind_of(rule).below else -threshold

    return sorted(rules, key=reach)


@dataclass(slots=True)
class Precedence:
    """The alerts that fire, of the rules evaluated so far."""

    _firing: dict[tuple[str, str], AlertRule] = field(default_factory=dict)

    def stands_for(self, rule: AlertRule, subject: str) -> AlertRule | None:
        """The rule whose alert stands for this one's; None: there is none."""
        if rule.threshold is None or rule.severity != _LOOK:
            return None
        return self._firing.get((rule.kind, subject))

    def note(self, rule: AlertRule, alerts: Iterable[Alert]) -> None:
        """What fires now of a rule that needs somebody at once."""
        if rule.threshold is None or rule.severity != _NOW:
            return
        for alert in alerts:
            if alert.state == Alert.State.FIRING:
                self._firing[rule.kind, alert.subject] = rule
