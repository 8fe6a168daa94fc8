"""The value of ``alerts``: rules of a slot's own, in place of the rules for all slots."""

import difflib
from collections.abc import Mapping
from typing import Any

from replview.features.alerts.kinds import KINDS
from replview.features.alerts.kinds.base import AlertKind
from replview.features.alerts.rule_form import RuleForm
from replview.store.models import AlertRule

#: Built-in rules that a slot may replace by a rule of its own, by their names in the file.
OVERRIDABLE: dict[str, AlertKind] = {
    rule.key: kind for kind in KINDS.values() if kind.per_slot for rule in kind.built_in
}
#: Keys of a rule's table in the file, by field of the rule's form, where the two differ.
_KEYS = {"clear_threshold": "over", "enabled": "on"}

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
    """Check a rule's value with the form of its kind, reduced to the keys that are given."""
    if given == "inherit":
        return None  # the slot has no rule of its own
    if isinstance(given, bool):
        given = {"on": given}
    elif isinstance(given, str):
        given = {"threshold": given}
    if not isinstance(given, Mapping) or not given:
        raise ValueError('write false, true, "inherit", a threshold, or a table of a rule\'s keys')
    rule = AlertRule(kind=kind.key)
    keys = {_KEYS.get(name, name): name for name in RuleForm(rule).fields if name != "name"}
    for key, value in given.items():
        if key not in keys:
            raise ValueError(f"there is no {key}; known are {', '.join(keys)}")
        if not isinstance(value, bool if key == "on" else str):
            raise ValueError(
                f"{key} must be {'true or false' if key == 'on' else 'a text in quotes'}"
            )
    form = RuleForm(rule, {keys[key]: value for key, value in given.items()})
    form.fields = {keys[key]: form.fields[keys[key]] for key in given}
    if not form.is_valid():
        faults = [f"{_KEYS.get(name, name)}: {errors[0]}" for name, errors in form.errors.items()]
        raise ValueError("; ".join(faults))
    fields = form.changes()
    if "threshold" in given:
        # Do not inherit clear_threshold: it may lie beyond this rule's threshold.
        fields.setdefault("clear_threshold", None)
    return fields
