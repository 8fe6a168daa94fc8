"""Evaluate all alert rules: alerts begin, fire and are cleared.

All state is in the store, so a restart changes nothing. The process that holds the advisory lock is
the only evaluator. An unknown value (None) changes no alert.
"""

import datetime as dt
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from replview.features.alerts import built_in, messages
from replview.features.alerts.kinds import KINDS, kind_of
from replview.features.alerts.kinds.base import EventKind, MeasuredKind
from replview.features.alerts.measured import Measured
from replview.features.alerts.measures import Measures
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import Alert, AlertRule

_NOW, _LOOK = AlertRule.Severity.NOW, AlertRule.Severity.LOOK
log = logging.getLogger(__name__)
_State = Alert.State
#: Name of the setting that holds the time of the last evaluation.
EVALUATED_AT = "alerts.evaluated_at"
_UPDATED_FIELDS = (
    "state", "fired_at", "over_since", "cleared_at", "message", "value_fired", "value_worst",
    "value_last", "rule_was", "detail", "source", "slot",
)  # fmt: skip
#: Key of the advisory lock that the only evaluator holds.
EVALUATE_LOCK = 0x7265706C616C32


def holds(rule: AlertRule, value: float) -> bool:
    """Return whether the value meets the rule's condition."""
    if rule.threshold is None:
        return value >= 1
    return value < rule.threshold if kind_of(rule).below else value >= rule.threshold


def is_over(rule: AlertRule, value: float) -> bool:
    """Return whether the condition has ended, with the rule's margin (hysteresis)."""
    if holds(rule, value):
        return False
    if rule.clear_threshold is None or rule.threshold is None:
        return True
    return value >= rule.clear_threshold if kind_of(rule).below else value < rule.clear_threshold


def worse(rule: AlertRule, first: float | None, second: float | None) -> float | None:
    """Return the worse of two values by the rule's direction; None only if both are unknown."""
    values = [value for value in (first, second) if value is not None]
    if not values:
        return None
    return min(values) if kind_of(rule).below else max(values)


def begin(rule: AlertRule, subject: str, value: float | None, now: dt.datetime) -> Alert | None:
    """Return a new alert if the condition holds, else None; the alert may fire at once."""
    if value is None or not holds(rule, value):
        return None
    alert = Alert(rule=rule, subject=subject, state=Alert.State.PENDING, began_at=now)
    advance(alert, rule, value, now)
    return alert


def advance(
    alert: Alert, rule: AlertRule, value: float | None, now: dt.datetime, *, gone: bool = False
) -> None:
    """Update the alert's fields and state with a new value.

    ``gone`` means that the subject no longer exists, which ends the condition. A pending alert
    whose condition ends becomes cleared without having fired, and is to be deleted.
    """
    if value is None and not gone:
        return
    if value is not None:
        alert.value_last = value
        alert.value_worst = worse(rule, alert.value_worst, value)
    if gone or (value is not None and is_over(rule, value)):
        _end_condition(alert, rule, now)
        return
    alert.over_since = None
    if (
        alert.state == Alert.State.PENDING
        and value is not None
        and holds(rule, value)
        and (now - alert.began_at).total_seconds() >= rule.hold_seconds
    ):
        alert.state = Alert.State.FIRING
        alert.fired_at = now
        alert.value_fired = value


def _end_condition(alert: Alert, rule: AlertRule, now: dt.datetime) -> None:
    if alert.over_since is None:
        alert.over_since = now
    over_seconds = (now - alert.over_since).total_seconds()
    if alert.state == Alert.State.PENDING or over_seconds >= rule.clear_seconds:
        alert.state = Alert.State.CLEARED
        alert.cleared_at = now


def furthest_first(rules: Iterable[AlertRule]) -> list[AlertRule]:
    """Sort the rules so that within each kind the most severe threshold comes first."""

    def reach(rule: AlertRule) -> float:
        threshold = rule.threshold or 0.0
        return threshold if kind_of(rule).below else -threshold

    return sorted(rules, key=reach)


@dataclass(slots=True)
class Precedence:
    """The firing alerts of severity "now", which suppress lesser alerts of the same subject."""

    _firing: dict[tuple[str, str], AlertRule] = field(default_factory=dict)

    def stands_for(self, rule: AlertRule, subject: str) -> AlertRule | None:
        """Return the rule whose firing alert suppresses this rule's alert, or None."""
        if rule.threshold is None or rule.severity != _LOOK:
            return None
        return self._firing.get((rule.kind, subject))

    def note(self, rule: AlertRule, alerts: Iterable[Alert]) -> None:
        """Remember the firing alerts of a rule of severity "now"."""
        if rule.threshold is None or rule.severity != _NOW:
            return
        for alert in alerts:
            if alert.state == Alert.State.FIRING:
                self._firing[rule.kind, alert.subject] = rule


def evaluate(now: dt.datetime | None = None) -> list[Alert]:
    """Evaluate every rule once, and return the alerts that fired or were cleared."""
    now = now or dt.datetime.now(dt.UTC)
    with one_evaluator() as locked:
        if not locked:
            return []
        try:
            with transaction.atomic():
                changed = _evaluate(now, guard=nullcontext)
        except Exception:
            # Evaluate again with a savepoint per rule, so that only failing rules are skipped.
            changed = _evaluate(now, guard=_in_savepoint)
        # Pages warn when this time is too old.
        instance_settings.write(EVALUATED_AT, now.isoformat(), "")
        return changed


@contextmanager
def one_evaluator() -> Iterator[bool]:
    """Open a transaction, and yield True if it got the evaluator's lock."""
    with transaction.atomic():
        ((locked,),) = rows("SELECT pg_try_advisory_xact_lock(%s)", [EVALUATE_LOCK])
        yield bool(locked)


@contextmanager
def _in_savepoint(rule: AlertRule) -> Iterator[None]:
    """Undo and log the failure of one rule alone; it is tried again next time."""
    try:
        with transaction.atomic():
            yield
    except Exception:
        log.exception("alert rule %s cannot be evaluated", rule.pk)


def _read_rules() -> list[AlertRule]:
    """Return all rules of known kinds; insert missing built-in rules first."""
    rules = AlertRule.objects.select_related("slot")
    if not {rule.key for rule in rules} >= built_in.KEYS:
        built_in.ensure()
        rules = rules.all()
    return [rule for rule in rules if _is_known(rule)]


def _is_known(rule: AlertRule) -> bool:
    """Return whether this version knows the rule's kind; after a downgrade it may not."""
    if kind_of(rule).known:
        return True
    log.warning("alert rule %s is left out: this version does not know its kind", rule.pk)
    return False


def _evaluate(
    now: dt.datetime, guard: Callable[[AlertRule], AbstractContextManager[Any]]
) -> list[Alert]:
    rules = _read_rules()
    overridden: dict[int, set[int]] = {}
    for rule in rules:
        if rule.overrides_id is not None and rule.slot_id is not None:
            overridden.setdefault(rule.overrides_id, set()).add(rule.slot_id)
    measures = Measures(StoreSnapshot(now))
    open_alerts: dict[int, list[Alert]] = {}
    for alert in Alert.objects.filter(state__in=[_State.PENDING, _State.FIRING]):
        open_alerts.setdefault(alert.rule_id, []).append(alert)
    changed: list[Alert] = []
    precedence = Precedence()
    for rule in furthest_first(rules):
        rule_alerts, overridden_slots = open_alerts.get(rule.pk, []), overridden.get(rule.pk, set())
        with guard(rule):
            changed += _evaluate_rule(
                rule, rule_alerts, overridden_slots, measures, now, precedence
            )
    return changed


def _evaluate_rule(
    rule: AlertRule,
    open_alerts: list[Alert],
    overridden: set[int],
    measures: Measures,
    now: dt.datetime,
    precedence: Precedence,
) -> list[Alert]:
    for alert in open_alerts:
        alert.rule = rule
    if not rule.enabled:
        return _end_all(open_alerts, now)
    kind = KINDS[rule.kind]
    if isinstance(kind, EventKind):
        begun, further = kind.read_events(rule, overridden, now)
        for alert in begun:
            _copy_rule(alert, rule)
        counted = {alert.pk for alert in further}
        ended = kind.end_rested((a for a in open_alerts if a.pk not in counted), now)
        return _save_alerts(begun, [*further, *ended], [*begun, *ended], now)
    run = _RuleRun(rule, kind, now, precedence)
    by_subject = {alert.subject: alert for alert in open_alerts}
    for measured in measures.of(kind, rule, overridden):
        if not precedence.stands_for(rule, measured.subject):
            run.take(measured, by_subject.pop(measured.subject, None))
    for alert in by_subject.values():
        run.end(alert)
    precedence.note(rule, [*run.begun, *open_alerts])
    return _save_alerts(run.begun, run.moved, run.changed, now)


@dataclass
class _RuleRun:
    """One evaluation of one rule, with the alerts that it changes."""

    rule: AlertRule
    kind: MeasuredKind
    now: dt.datetime
    precedence: Precedence
    begun: list[Alert] = field(default_factory=list)
    moved: list[Alert] = field(default_factory=list)
    #: Alerts that fired or were cleared.
    changed: list[Alert] = field(default_factory=list)

    def take(self, measured: Measured, alert: Alert | None) -> None:
        """Evaluate one subject's value, and update or begin its alert."""
        before = _State.PENDING if alert is None else _State(alert.state)
        if alert is None:
            # An infinite time to loss meets no threshold, so it begins no alert.
            alert = begin(self.rule, measured.subject, measured.value, self.now)
            if alert is None:
                return
            self.begun.append(alert)
        elif _advance_alert(alert, self.rule, measured, self.now):
            self.moved.append(alert)
        else:
            return
        alert.source_id, alert.slot_id = measured.source_id, measured.slot_id
        if alert.state != _State.CLEARED:  # a cleared alert keeps its details from while it fired
            alert.detail = {"name": measured.name, **measured.detail}
        if alert.state == _State.FIRING and before == _State.PENDING:
            alert.message = self.kind.fired_message(measured)
            _copy_rule(alert, self.rule)
            self.changed.append(alert)
        elif alert.state == _State.CLEARED and before == _State.FIRING:
            self.changed.append(alert)

    def end(self, alert: Alert) -> None:
        """End an alert because its subject is gone, or a more severe alert replaces it."""
        state_before = alert.state
        if replacing := self.precedence.stands_for(self.rule, alert.subject):
            alert.detail["over_because"] = f"“{replacing.name}” replaces it now"
        advance(alert, self.rule, None, self.now, gone=True)
        self.moved.append(alert)
        if alert.state == _State.CLEARED and state_before == _State.FIRING:
            self.changed.append(alert)


def _advance_alert(alert: Alert, rule: AlertRule, measured: Measured, now: dt.datetime) -> bool:
    """Advance the alert; return False if nothing needs to be stored."""
    before = (alert.state, alert.value_last, alert.over_since)
    last, worst = alert.value_last, alert.value_worst
    advance(alert, rule, measured.value, now)
    if measured.value is not None and math.isinf(measured.value):
        alert.value_last, alert.value_worst = last, worst
    return before != (alert.state, alert.value_last, alert.over_since)


def _copy_rule(alert: Alert, rule: AlertRule) -> None:
    """Copy the rule into the alert, because the rule may change while the alert is open."""
    names = ("name", "kind", "severity", "threshold", "clear_threshold", "hold_seconds",
             "clear_seconds")  # fmt: skip
    alert.rule_was = {name: getattr(rule, name) for name in names}


def _end_all(alerts: list[Alert], now: dt.datetime) -> list[Alert]:
    changed = []
    for alert in alerts:
        if alert.state == _State.FIRING:
            alert.detail["over_because"] = "the rule was switched off"
            changed.append(alert)
        alert.state, alert.cleared_at = _State.CLEARED, now
    return _save_alerts([], alerts, changed, now)


def _save_alerts(
    begun: list[Alert], moved: list[Alert], changed: list[Alert], now: dt.datetime
) -> list[Alert]:
    """Save changed alerts, delete those that never fired, and announce ``changed``."""
    for alert in begun:
        alert.save()
    forgotten = [a.pk for a in moved if a.state == _State.CLEARED and a.fired_at is None]
    if forgotten:
        Alert.objects.filter(pk__in=forgotten).delete()
    remaining = [
        alert for alert in moved if alert.fired_at is not None or alert.state != _State.CLEARED
    ]
    if remaining:
        Alert.objects.bulk_update(remaining, _UPDATED_FIELDS)
    for alert in changed:
        messages.announce(alert, now)
    return changed
