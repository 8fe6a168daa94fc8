"""Compare a whole fleet file with the store and the servers, eight servers at a time."""

import contextvars
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connections, transaction

from replview.access import visibility
from replview.access.accounts import give_grant, take_grant
from replview.access.mask_making import add_rule, remove_rule
from replview.catalog.problems import SourceProblem
from replview.management.fleet.declared import (
    DeclaredFleet,
    DeclaredGrant,
    DeclaredMask,
    DeclaredSource,
)
from replview.management.fleet.plans import BY, FleetPlan, Item, Verdict
from replview.management.fleet.source_planning import plan_further_source, plan_source
from replview.store.models import Grant, MaskRule, Source
from replview.store.write.access_record import note

#: Number of servers that are read or changed at the same time.
WORKERS = 8
_Task = TypeVar("_Task")


def plan_fleet(fleet: DeclaredFleet, *, prune: bool, stop: threading.Event) -> FleetPlan:
    """Return the plan that makes the store and the servers match the file; change nothing."""

    def plan_one(declared: DeclaredSource) -> list[Item]:
        try:
            return plan_source(declared, file=fleet.name, prune=prune, stop=stop)
        except Exception as error:
            # One failing source must not hide the others. The error's text may hold secrets.
            problem = SourceProblem("failed", f"looking at it failed ({type(error).__name__})",
                              "Look at it with 'replview doctor'")  # fmt: skip
            item = Item(kind="source", name=declared.name)
            item.refuse(problem, Verdict.UNREACHABLE)
            return [item]

    groups = side_by_side(plan_one, fleet.sources, stop)
    declared_names = {declared.name for declared in fleet.sources}
    undeclared = Source.objects.filter(ephemeral=False, removing_at=None).exclude(
        name__in=declared_names
    )
    groups += [plan_further_source(source, file=fleet.name, prune=prune) for source in undeclared]
    groups += [[item] for item in plan_masks(fleet, prune=prune)]
    groups += [[item] for item in plan_grants(fleet, prune=prune)]
    return FleetPlan(groups)


def side_by_side(
    work: Callable[[_Task], Any], tasks: Iterable[_Task], stop: threading.Event
) -> list[Any]:
    """Run ``work`` for each task in threads, and return the results in the tasks' order.

    Each thread closes its connections to the store. An interrupt (Ctrl-C) sets ``stop``, cancels
    the tasks that have not started, and waits for the running ones.
    """
    todo: Sequence[_Task] = list(tasks)
    if not todo:
        return []

    def run(context: contextvars.Context, task: _Task) -> Any:
        try:
            return context.run(work, task)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(min(WORKERS, len(todo)), thread_name_prefix="fleet") as pool:
        futures = [pool.submit(run, contextvars.copy_context(), task) for task in todo]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def plan_grants(fleet: DeclaredFleet, *, prune: bool) -> list[Item]:
    """Return one item per grant.

    Grants that the file does not name get an item only if the file declares any grant.
    """
    if not fleet.grants:
        return []
    existing = {}
    for grant in Grant.objects.select_related("user", "group", "source"):
        kind, holder = "group" if grant.group else "user", str(grant.group or grant.user or "")
        existing[kind, holder, grant.source.name if grant.source else ""] = grant
    items = [
        _plan_grant(declared, existing.pop((declared.kind, declared.holder, declared.source), None))
        for declared in fleet.grants
    ]
    for (kind, holder, source), grant in existing.items():
        name = f"{kind} {holder} on {source or 'every source'}"
        items.append(_plan_undeclared("grant", name, prune, take_grant, grant))
    return items


def _plan_undeclared(
    kind: str, name: str, prune: bool, remove: Callable[[Any], Any], row: Any
) -> Item:
    """Return the item of a grant or mask rule that the file does not name: left or removed."""
    item = Item(kind=kind, name=name, verdict=Verdict.REMOVED if prune else Verdict.LEFT)
    if prune:
        item.will(remove, row)
    return item


def _plan_grant(declared: DeclaredGrant, grant: Grant | None) -> Item:
    item = Item(kind="grant", name=str(declared))
    holder = _holder(declared)
    if holder is None:
        cause = f"there is no {declared.kind} {declared.holder}"
        item.refuse(SourceProblem("no_account", cause, "Make it first: replview account add"))
        return item
    tables = list(declared.tables)
    if grant is not None and sorted(grant.tables) == sorted(tables):
        return item
    former = None if grant is None else grant.tables or "all tables"
    item.change("sees", former, tables or "all tables")
    if grant is None:
        item.verdict = Verdict.ADDED
    item.acts.append(lambda say: give_grant(holder, _source(declared.source), tables, by=BY))
    return item


def _source(name: str) -> Source | None:
    """Return the named source, or None for every source.

    Raises ``DoesNotExist`` for an unknown name, so that its grant does not cover all sources.
    """
    return Source.objects.get(name=name) if name else None


def _holder(declared: DeclaredGrant) -> Any | None:
    if declared.kind == "group":
        return Group.objects.filter(name=declared.holder).first()
    return get_user_model()._default_manager.filter(username=declared.holder).first()


def plan_masks(fleet: DeclaredFleet, *, prune: bool) -> list[Item]:
    """Return one item per mask rule.

    Rules that the file does not name get an item only if the file declares any rule.
    """
    if not fleet.has_masks:
        return []
    existing = {
        (rule.source.name if rule.source else "", rule.table_pattern, rule.column_pattern,
         rule.type_pattern): rule
        for rule in MaskRule.objects.select_related("source")
    }  # fmt: skip
    items = [
        _plan_mask(
            declared,
            existing.pop((declared.source, declared.table, declared.column, declared.type), None),
        )
        for declared in fleet.masks
    ]
    for rule in existing.values():
        items.append(_plan_undeclared("mask", str(rule), prune, remove_rule, rule))
        if prune:
            note_text = "What was masked on display by this rule alone is shown again."
            items[-1].notes.append(note_text)
    return items


def _plan_mask(declared: DeclaredMask, rule: MaskRule | None) -> Item:
    item = Item(kind="mask", name=str(declared))
    if rule is None:
        when = "at ingest" if declared.when == "ingest" else "on display"
        item.change("masked", "not by this rule", when)
        item.verdict = Verdict.ADDED
        item.will(_add_mask, declared)
        return item
    declared_values = {"when": declared.when, "note": declared.note or rule.note}
    changes = {name: now for name, now in declared_values.items() if getattr(rule, name) != now}
    for name, now in changes.items():
        item.change(name, getattr(rule, name), now)
    if changes:
        item.will(_change_mask, rule, changes)
    return item


def _add_mask(declared: DeclaredMask) -> None:
    add_rule(
        MaskRule(
            source=_source(declared.source),
            table_pattern=declared.table,
            column_pattern=declared.column,
            type_pattern=declared.type,
            when=declared.when,
            note=declared.note,
            created_by=BY,
        )
    )


def _change_mask(rule: MaskRule, changes: dict[str, str]) -> None:
    """Replace the rule in one transaction, so that there is no moment without it.

    The new row gets a new number, by which running receivers notice the change.
    """
    with transaction.atomic():
        MaskRule.objects.filter(pk=rule.pk).delete()
        rule.pk = None
        for name, now in changes.items():
            setattr(rule, name, now)
        rule.save(force_insert=True)
        note("changed_settings", subject="mask rule changed", source_id=rule.source_id,
             details={"by": BY, "columns": rule.column_pattern, **changes})  # fmt: skip
    visibility.forget()
