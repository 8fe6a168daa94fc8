"""Alert rules that a fleet file declares for one slot, in place of the rules for all slots.

This module reads them, compares them with the store and carries the changes out.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from replview.features.alerts import built_in
from replview.features.alerts.amounts import exact_words, parse_amount
from replview.features.alerts.built_in import own_rule
from replview.features.alerts.kinds import KINDS, AlertKind, Unit
from replview.management.fleet.declared import DeclaredSlot
from replview.management.fleet.plans import BY, Item
from replview.store.looks import watched_of
from replview.store.models import AlertRule, Slot
from replview.store.write.access_record import note

#: Built-in rules that a slot may replace by a rule of its own, by their names in the file.
OVERRIDABLE: dict[str, AlertKind] = {
    values["key"]: KINDS[values["kind"]]
    for values in built_in.BUILT_IN
    if KINDS[values["kind"]].per_slot
}
#: Maps keys of a rule's table in the file to fields of the rule.
_FIELDS = {"threshold": "threshold", "over": "clear_threshold", "hold": "hold_seconds",
           "clear": "clear_seconds", "severity": "severity", "on": "enabled"}  # fmt: skip
#: The plan's words for the fields of a rule.
_FIELD_LABELS = {"threshold": "at", "clear_threshold": "over at", "hold_seconds": "held for",
         "clear_seconds": "over after", "severity": "severity"}  # fmt: skip

#: The values of the slot's own rule by field; None means that the slot has no own rule.
OwnRule = dict[str, Any] | None


def take_alerts(value: object) -> dict[str, OwnRule]:
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
            rules[name] = _take_rule(OVERRIDABLE[name], rule_value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return rules


def _take_rule(kind: AlertKind, given: object) -> OwnRule:
    if given == "inherit":
        return None  # the slot has no rule of its own
    if isinstance(given, bool):
        return {"enabled": given}
    table = {"threshold": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not table:
        raise ValueError('write false, true, "inherit", a threshold, or a table of a rule\'s keys')
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _FIELDS:
            raise ValueError(f"there is no {key}; known are {', '.join(_FIELDS)}")
        fields[_FIELDS[key]] = _take_field(kind, key, value)
    if "threshold" in fields:
        # Do not inherit clear_threshold: it may lie beyond this rule's threshold.
        fields.setdefault("clear_threshold", None)
        threshold, clear_threshold = fields["threshold"], fields["clear_threshold"]
        if clear_threshold is not None and (
            clear_threshold < threshold if kind.below else clear_threshold > threshold
        ):
            raise ValueError(f"over must be at {'least' if kind.below else 'most'} the threshold")
    return fields


def _take_field(kind: AlertKind, key: str, value: object) -> Any:
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


def compare_alerts(item: Item, slot: Slot | None, declared: DeclaredSlot, *, prune: bool) -> None:
    """Add the differences between declared and stored alert rules to the slot's item.

    ``slot`` is None if the slot does not exist yet.
    """
    if item.trouble is not None or not declared.says("alerts"):
        return
    declared_rules: dict[str, OwnRule] = dict(declared.get("alerts"))
    own_rules = _own_rules(slot)
    for name in own_rules:
        if name not in declared_rules and prune:
            declared_rules[name] = None
        elif name not in declared_rules:
            item.notes.append(f"It has a rule of its own instead of {name}; the file names none.")
    for name, fields in declared_rules.items():
        rule = own_rules.get(name)
        if rule is None and fields is None:
            continue
        if rule is not None and fields is not None:
            fields = {key: now for key, now in fields.items() if getattr(rule, key) != now}
            if not fields:
                continue
        _note_change(item, name, rule, fields)
        item.will(_carry_out, item.name, name, fields)


def _own_rules(slot: Slot | None) -> dict[str, AlertRule]:
    """Return the slot's own rules, by the key of the built-in rule each replaces."""
    if slot is None:
        return {}
    rules = AlertRule.objects.filter(slot__source=slot.source_id, slot__name=slot.name)
    overriding = rules.filter(overrides__key__in=list(OVERRIDABLE)).select_related("overrides")
    return {rule.overrides.key: rule for rule in overriding if rule.overrides is not None}


def _note_change(item: Item, name: str, rule: AlertRule | None, fields: OwnRule) -> None:
    kind = OVERRIDABLE[name]
    former = "as for all slots"
    if rule is not None:
        former = _rule_text(kind, {key: getattr(rule, key) for key in fields or _FIELDS.values()})
    now = "as for all slots" if fields is None else _rule_text(kind, fields)
    item.change(f"alert {name}", former, now)


def _rule_text(kind: AlertKind, fields: Mapping[str, Any]) -> str:
    parts = []
    for key, label in _FIELD_LABELS.items():
        value = fields.get(key)
        if value is None:
            continue
        if key != "severity":
            value = exact_words(value, Unit.SECONDS if key.endswith("seconds") else kind.unit)
        parts.append(f"{label} {value}")
    if "enabled" in fields:
        parts.append("on" if fields["enabled"] else "off")
    return ", ".join(parts) or "none"


@transaction.atomic
def _carry_out(full_name: str, name: str, fields: OwnRule) -> None:
    source_name, _, slot_name = full_name.rpartition("/")
    slot = Slot.objects.select_related("source").get(source__name=source_name, name=slot_name)
    built_in.ensure()
    base = AlertRule.objects.get(key=name, slot=None)
    rule = own_rule(base, watched_of(slot))
    subject = f"alert rule {rule.name} of {full_name}"
    if fields is None:
        if rule.pk is not None:
            rule.delete()
            note("changed_settings", subject=f"{subject}: deleted", details={"by": BY})
        return
    rule.enabled = rule.enabled or rule.pk is None
    for key, value in fields.items():
        setattr(rule, key, value)
    rule.changed_at, rule.changed_by = timezone.now(), BY
    rule.save()
    note("changed_settings", subject=f"{subject}: saved", details={"by": BY})
