"""Two rules of one kind on one subject: where the graver one fires, it stands for the milder.

*Loss within an hour* says all that *loss within six hours* does. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from replview.features.alerts.rules.kinds import kind_of
from replview.store.models import Alert, AlertRule

_NOW, _LOOK = AlertRule.Severity.NOW, AlertRule.Severity.LOOK


def furthest_first(rules: Iterable[AlertRule]) -> list[AlertRule]:
    """Of each kind those that are reached last come first."""

    def reach(rule: AlertRule) -> float:
        threshold = rule.threshold or 0.0
        return threshold if kind_of(rule).below else -threshold

    return sorted(rules, key=reach)


@dataclass(slots=True)
class Standing:
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
