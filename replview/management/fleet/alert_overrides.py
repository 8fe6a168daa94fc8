"""The value of ``alerts``: rules of a slot's own, in place of the rules for all slots."""

import difflib
from collections.abc import Mapping
from typing import Any

from replview.features.alerts.amounts import Unit, parse_amount
from replview.features.alerts.kinds import KINDS
from replview.features.alerts.kinds.base import AlertKind
from replview.store.models import AlertRule

#: Built-in rules that a slot may replace by a rule of its own, by their names in the file.
OVERRIDABLE: dict[str, AlertKind] = {
    rule.key: kind for kind in KINDS.values() if kind.per_slot for rule in kind.built_in
}
#: Maps keys of a rule's table in the file to fields of the rule.
FIELDS = {"threshold": "threshold", "over": "clear_threshold", "hold": "hold_seconds",
           "clear": "clear_seconds", "severity": "severity", "on": "enabled"}  # fmt: skip

#: The values of the slot's own rule by field; None means that the slot has no own rule.
OwnRule = dict[str, Any] | None


def parse_alerts(value: object) -> dict[str, OwnRule]:
    """Check and convert the table ``alerts`` of a slot. Raises ``ValueError``."""
    if not isinstance(value, Mapping):
        raise ValueError('it must be a table such as { lag_look = "5min", inactive = false }')
    rules = {}
    for name, rule_value in value.items():
        if name not in OVERRIDABLE:
            similar = difflib.get_close_matches(name, OVERRIDABLE, n=1, cutoff=0.5)
            hint = (
                f"did you mean {similar[0]}?" if similar else f"known are {', '.join(OVERRIDABLE)}"
            )
            raise ValueError(f"no slot has a rule {name}; {hint}")
        try:
            rules[name] = _parse_rule(OVERRIDABLE[name], rule_value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return rules


def _parse_rule(kind: AlertKind, given: object) -> OwnRule:
    if given == "inherit":
        return None  # the slot has no rule of its own
    if isinstance(given, bool):
        return {"enabled": given}
    table = {"threshold": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not table:
        raise ValueError('write false, true, "inherit", a threshold, or a table of a rule\'s keys')
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key not in FIELDS:
            raise ValueError(f"there is no {key}; known are {', '.join(FIELDS)}")
        fields[FIELDS[key]] = _parse_field(kind, key, value)
    if "threshold" in fields:
        # Do not inherit clear_threshold: it may lie beyond this rule's threshold.
        fields.setdefault("clear_threshold", None)
        threshold, clear_threshold = fields["threshold"], fields["clear_threshold"]
        if clear_threshold is not None and (
            clear_threshold < threshold if kind.below else clear_threshold > threshold
        ):
            raise ValueError(f"over must be at {'least' if kind.below else 'most'} the threshold")
    return fields


def _parse_field(kind: AlertKind, key: str, value: object) -> Any:
    if key == "on":
        if not isinstance(value, bool):
            raise ValueError("on is true or false")
        return value
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text in quotes")
    if key == "severity":
        if value not in AlertRule.Severity.values:
            raise ValueError(f"severity is one of {', '.join(AlertRule.Severity.values)}")
        return value
    if key in ("threshold", "over") and kind.unit == Unit.YES_NO:
        raise ValueError("it has no threshold: it is so or not")
    return parse_amount(value, kind.unit if key in ("threshold", "over") else Unit.SECONDS)
