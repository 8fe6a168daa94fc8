"""Compare one declared source and its slots with the store and with the server itself."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from replview.acts.credentials import candidate_of
from replview.acts.dropping import drop_slot, plan_drop
from replview.acts.moving import move_source, plan_move
from replview.acts.noting import note_slot
from replview.acts.slot_making import make_slot
from replview.acts.sources import add_source, plan_remove, remove_source
from replview.catalog.connections import Connection, reading
from replview.catalog.plan.new_slot import make_plan
from replview.catalog.problems import SourceProblem
from replview.catalog.tables import TableFacts, read_tables
from replview.jobs import baselines
from replview.management.fleet.alert_diff import compare_alerts
from replview.management.fleet.declared import DeclaredSource
from replview.management.fleet.declared_slot import DeclaredSlot
from replview.management.fleet.matching import request_of
from replview.management.fleet.plans import BY, KEYS, Item, Verdict
from replview.management.fleet.slot_diff import plan_kept, wanted_keeping
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, Source
from replview.store.retention.policy import change_keeping
from replview.text.problem import with_place
from replview.ui.managed import EXPECTED

_DEADLINE_SECONDS = 30.0


def plan_source(
    declared: DeclaredSource, *, file: str, prune: bool, stop: threading.Event
) -> list[Item]:
    """Return the source's item, then those of the file's slots, then those of other slots."""
    item = Item(kind="source", name=declared.name)
    source = Source.objects.filter(name=declared.name, ephemeral=False).first()
    items = [item]
    try:
        conninfo = _plan_address(item, source, declared)
        _plan_managed_by(item, source, file)
        with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            tables = read_tables(connection) if declared.slots else []
            for declared_slot in declared.slots:
                slot = _plan_slot(connection, source, declared, declared_slot, tables, stop)
                compare_alerts(slot, _slot_of(source, declared_slot), declared_slot, prune=prune)
                items.append(slot)
    except EXPECTED as error:
        _mark_unreachable(items, declared, error)
    if source is not None and source.removing_at is not None:
        item.refuse(SourceProblem("removing", "it is being removed", "Apply again when it is gone"))
    if source is not None:
        declared_names = {slot.name for slot in declared.slots}
        items += _undeclared_slots(
            source, declared_names, prune=prune, reached=item.trouble is None
        )
    return items


def plan_further_source(source: Source, *, file: str, prune: bool) -> list[Item]:
    """Return the item of a source that the file does not name: left, or removed."""
    item = Item(kind="source", name=source.name, verdict=Verdict.LEFT)
    if not prune:
        if source.managed_by == file:
            _plan_managed_by(item, source, "")
        return [item]
    item.verdict = Verdict.REMOVED
    act = plan_remove(source, with_slots=True)
    item.take(act, lambda say: remove_source(source, by=BY, with_slots=True, say=say))
    return [item]


def _plan_managed_by(item: Item, source: Source | None, file: str) -> None:
    """Store the file's name at the source, so that pages can warn of changes by hand."""
    former_file = source.managed_by if source is not None else ""
    if former_file == file or item.trouble is not None:
        return
    item.change("declared in", former_file or None, file or None)
    sources = Source.objects.filter(name=item.name)
    item.will(sources.update, managed_by=file)


def _slot_of(source: Source | None, declared_slot: DeclaredSlot) -> Slot | None:
    if source is None:
        return None
    slots = Slot.objects.filter(source=source, name=declared_slot.name, temporary=False)
    return slots.select_related("source").first()


def _plan_address(item: Item, source: Source | None, declared: DeclaredSource) -> str:
    """Note a different address or password, and return the conninfo to connect with.

    A new source, or one with a different address, is reached at the declared address.
    """
    if source is None:
        candidate = candidate_of(Source(name=declared.name), declared.dsn, declared.password_ref)
        item.verdict = Verdict.ADDED
        item.change("address", None, candidate.conninfo)
        if declared.password_ref:
            item.change("password", None, declared.password_ref)
        item.will(add_source, declared.name, declared.dsn, declared.password_ref, by=BY)
        return full_conninfo(candidate)
    changed = candidate_of(source, declared.dsn, declared.password_ref)
    same_password = not declared.password_ref or declared.password_ref == source.password_ref
    if changed.conninfo == source.conninfo and same_password:
        return full_conninfo(source)
    if changed.conninfo != source.conninfo:
        item.change("address", source.conninfo, changed.conninfo)
    if not same_password:
        former_password = source.password_ref or (
            "sealed in the store" if source.sealed_password else "none"
        )
        item.change("password", former_password, declared.password_ref)
    keep = not declared.password_ref
    move = plan_move(source, declared.dsn, declared.password_ref, keep_password=keep)

    def carry_out(say: object) -> None:
        move_source(source, declared.dsn, declared.password_ref, by=BY, keep_password=keep,
                    agreed=move.kind)  # fmt: skip

    item.take(move.act, carry_out)
    if keep and not changed.password_ref:
        changed.sealed_password, changed.password_ref = source.sealed_password, source.password_ref
    return full_conninfo(changed)


def _plan_slot(
    connection: Connection,
    source: Source | None,
    declared: DeclaredSource,
    declared_slot: DeclaredSlot,
    tables: list[TableFacts],
    stop: threading.Event,
) -> Item:
    item = Item(kind="slot", name=f"{declared.name}/{declared_slot.name}")
    slot = _slot_of(source, declared_slot)
    try:
        if slot is not None:
            return plan_kept(connection, slot, declared_slot, tables)
        plan = make_plan(connection, request_of(declared_slot, tables))
    except SourceProblem as error:
        item.refuse(error)
        return item
    item.verdict = Verdict.ADDED
    item.statements = list(plan.statements)
    item.notes = [with_place(note.text, note.field, KEYS) for note in plan.notes]
    item.notes += [
        f"creating the slot now would wait for {transaction}" for transaction in plan.waits_for
    ]

    def make(say: Callable[[str], Any]) -> None:
        stored = Source.objects.get(name=declared.name)
        new_slot = make_slot(stored, full_conninfo(stored), plan, say,
                             stopped=not declared_slot.running, options=declared_slot.options,
                             interface=declared_slot.interface,
                             keep_aborted=declared_slot.keep_aborted, stop=stop)  # fmt: skip
        act, verb = ("create", "created") if plan.owned else ("adopt", "adopted")
        note_slot(new_slot, act, f"The slot was {verb}.", by=BY,
                  statements=[str(step) for step in plan.statements])  # fmt: skip
        if (keeping := wanted_keeping(new_slot, declared_slot)) is not None:
            change_keeping(new_slot, keeping, by=BY)
        if declared_slot.baseline and new_slot.plugin == "pgoutput":
            _ask_for_baselines(new_slot)

    item.acts.append(make)
    return item


def _ask_for_baselines(slot: Slot) -> None:
    from replview.management.commands.baseline import tables_for

    for schema, table in tables_for(slot, [], everything=True):
        baselines.request(slot, schema, table, by=BY)


def _drop(slot: Slot, say: Callable[[str], Any]) -> None:
    drop_slot(slot, by=BY, say=say)


def _undeclared_slots(
    source: Source, declared_names: set[str], *, prune: bool, reached: bool
) -> list[Item]:
    items = []
    slots = Slot.objects.filter(source=source, temporary=False).exclude(name__in=declared_names)
    for slot in slots.exclude(desired=Slot.Desired.REMOVING).select_related("source"):
        item = Item(kind="slot", name=str(slot), verdict=Verdict.LEFT)
        if prune and reached:
            item.verdict = Verdict.REMOVED
            item.take(plan_drop(slot), partial(_drop, slot))
        items.append(item)
    return items


def _mark_unreachable(items: list[Item], declared: DeclaredSource, error: Exception) -> None:
    """Mark the source and all its slots as unreachable."""
    problem = trouble_of(error)
    for item in items:
        item.refuse(problem, Verdict.UNREACHABLE)
    names = [f"{declared.name}/{slot.name}" for slot in declared.slots]
    items += [
        Item(kind="slot", name=name, verdict=Verdict.UNREACHABLE, trouble=problem)
        for name in names
        if name not in {item.name for item in items}
    ]


def trouble_of(error: Exception) -> SourceProblem:
    """Return an error of the classes in ``EXPECTED`` as a ``SourceProblem``."""
    if isinstance(error, SourceProblem):
        return error
    return SourceProblem("address", str(error), "Correct its dsn or password in the file")
