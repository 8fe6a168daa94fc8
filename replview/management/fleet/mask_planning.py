"""Declared mask rules, compared with those there are."""

from collections.abc import Callable
from typing import Any

from django.db import transaction

from replview.access.mask_making import add_rule, remove_rule
from replview.management.fleet.declared import DeclaredMask, Fleet
from replview.management.fleet.plans import BY, Item, Verdict
from replview.store.models import MaskRule, Source
from replview.store.read import visibility as sight
from replview.store.write.access_record import note

Key = tuple[str, str, str, str]


def plan_masks(fleet: Fleet, *, prune: bool) -> list[Item]:
    """One item for each rule; rules that the file does not name only where it names any."""
    if not fleet.has_masks:
        return []
    known = {_key_of(rule): rule for rule in MaskRule.objects.select_related("source")}
    items = [_plan(declared, known.pop(_key(declared), None)) for declared in fleet.masks]
    for rule in known.values():
        item = Item(kind="mask", name=str(rule), verdict=Verdict.LEFT)
        if prune:
            item.verdict = Verdict.REMOVED
            item.notes.append("What was masked on display by this rule alone is shown again.")
            item.acts.append(_remover(rule))
        items.append(item)
    return items


def _plan(declared: DeclaredMask, rule: MaskRule | None) -> Item:
    item = Item(kind="mask", name=str(declared))
    if rule is None:
        item.change("masked", "not by this rule", f"at {declared.when}" if declared.when == "ingest"
                    else "on display")  # fmt: skip
        item.verdict = Verdict.ADDED
        item.acts.append(lambda say: _add(declared))
        return item
    wanted = {"when": declared.when, "note": declared.note or rule.note}
    differing = {name: now for name, now in wanted.items() if getattr(rule, name) != now}
    for name, now in differing.items():
        item.change(name, getattr(rule, name), now)
    if differing:
        item.acts.append(lambda say: _change(rule, differing))
    return item


def _add(declared: DeclaredMask) -> None:
    add_rule(
        MaskRule(
            source=Source.objects.get(name=declared.source) if declared.source else None,
            table_pattern=declared.table,
            column_pattern=declared.column,
            type_pattern=declared.type,
            when=declared.when,
            note=declared.note,
            created_by=BY,
        )
    )


def _change(rule: MaskRule, differing: dict[str, str]) -> None:
    """At no moment is there no rule. Under a number of its own, by which receivers that run know
    that there is something to read.
    """
    with transaction.atomic():
        MaskRule.objects.filter(pk=rule.pk).delete()
        rule.pk = None
        for name, now in differing.items():
            setattr(rule, name, now)
        rule.save(force_insert=True)
        note("changed_settings", subject="mask rule changed", source_id=rule.source_id,
             details={"by": BY, "columns": rule.column_pattern, **differing})  # fmt: skip
    sight.forget()


def _remover(rule: MaskRule) -> Callable[[Any], None]:
    return lambda say: remove_rule(rule)


def _key(declared: DeclaredMask) -> Key:
    return declared.source, declared.table, declared.column, declared.type


def _key_of(rule: MaskRule) -> Key:
    source = rule.source.name if rule.source else ""
    return source, rule.table_pattern, rule.column_pattern, rule.type_pattern
