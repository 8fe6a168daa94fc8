"""Compare the alert rules that a fleet file declares for a slot with the store, and change them."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from replview.features.alerts import built_in
from replview.features.alerts.amounts import Unit, exact_words
from replview.features.alerts.built_in import own_rule
from replview.features.alerts.kinds.base import AlertKind
from replview.management.fleet.alert_overrides import OVERRIDABLE, OwnRule
from replview.management.fleet.declared_slot import DeclaredSlot
from replview.management.fleet.plans import BY, Item
from replview.store.looks import watched_of
from replview.store.models import AlertRule, Slot
from replview.store.write.access_record import note

#: The plan's words for the fields of a rule.
_FIELD_LABELS = {"threshold": "at", "clear_threshold": "over at", "hold_seconds": "held for",
         "clear_seconds": "over after", "severity": "severity"}  # fmt: skip
_FIELDS = (*_FIELD_LABELS, "enabled")


def compare_alerts(item: Item, slot: Slot | None, declared: DeclaredSlot, *, prune: bool) -> None:
    """Add the differences between declared and stored alert rules to the slot's item.

    ``slot`` is None if the slot does not exist yet.
    """
    if item.trouble is not None or not declared.says("alerts"):
        return
    declared_rules = dict(declared.alerts)
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
        former = _rule_text(kind, {key: getattr(rule, key) for key in fields or _FIELDS})
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
