"""Add, rename and remove sources; a removal may include their slots."""

import re

from django.db import IntegrityError, transaction
from django.http import QueryDict
from django.utils import timezone

from replview.acts.dropping import drop_slot, plan_drop
from replview.acts.noting import log_slot, note_source
from replview.acts.publications import remaining_slots
from replview.acts.receiving import silent
from replview.catalog.plan.carrying_out import Say
from replview.catalog.plan.plan import Plan
from replview.catalog.problems import SourceProblem
from replview.jobs import intentions
from replview.store.dsn import resolve, set_dsn
from replview.store.models import SavedFilter, Slot, Source
from replview.store.reachable import check_address
from replview.store.retention.archive import keep_homes

#: Names that are path segments under /sources/.
_RESERVED_NAMES = {"new"}
_MAX_NAME_LENGTH = 63


def name_fault(name: str) -> str:
    """Return why a source cannot have this name; empty when it can."""
    if not name.strip() or len(name) > _MAX_NAME_LENGTH or "/" in name or not name.isprintable():
        return f"a source's name has 1 to {_MAX_NAME_LENGTH} characters, and no slash"
    if name != name.strip() or name in _RESERVED_NAMES or re.fullmatch(r"\.+", name):
        return f"{name.strip()!r} cannot be a source's name"
    return ""


def add_source(name: str, dsn: str, password_ref: str = "", *, by: str) -> Source:
    """Store a source without trying to reach it. Raises ``DSNError`` and ``SourceProblem``."""
    check_new_name(name)
    source = Source(name=name, credentials_by=by)
    set_dsn(source, dsn, password_ref)
    check_address(resolve(source.conninfo))
    try:
        with transaction.atomic():
            source.save()
    except IntegrityError:
        raise _name_taken(name) from None
    note_source(source, "add", by=by)
    return source


def plan_rename(source: Source, name: str = "") -> Plan:
    """Plan to rename a source, which changes nothing on its server."""
    name_problem = name_fault(name) if name else ""
    is_other = bool(name) and not name_problem and name != source.name
    is_taken = is_other and Source.objects.filter(name=name).exists()
    refusal = None
    if name_problem or is_taken:
        cause = name_problem or f"there is already a source {name}"
        refusal = SourceProblem("bad_name", cause, "Choose another name")
    return Plan(
        title=f"Rename {source}",
        on=source.name,
        consequences=(
            "Only the name changes, and with it the addresses of the source's pages. Its record, "
            "its slots and their logs stay as they are.",
            "Saved filters are changed, too. Links, scripts, dashboards and fleet files that use "
            "the former name no longer find the source.",
            "Existing exports keep the former name; later ones have the new one.",
        ),
        refusal=refusal,
    )


def rename_source(source: Source, name: str, *, by: str) -> Source:
    """Rename the source. Raises ``SourceProblem``."""
    former = source.name
    if name == former:
        return source
    check_new_name(name)
    try:
        with transaction.atomic():
            source.name = name
            source.save(update_fields=["name"])
            _rename_in_filters(former, name)
            keep_homes(source, former)
    except IntegrityError:
        source.name = former
        raise _name_taken(name) from None
    for slot in remaining_slots(source):
        log_slot(
            slot, "rename", f"The source {former} was renamed to {name}.", by=by, former=former
        )
    note_source(source, "rename", by=by, former=former)
    return source


def plan_remove(source: Source, *, with_slots: bool = False, leave_on_source: bool = False) -> Plan:
    """Plan to remove a source, with every slot's statements where ``with_slots``.

    Refused while objects of an unfinished slot are on the source, unless they are left there.
    """
    slots = list(Slot.objects.filter(source=source, temporary=False).order_by("name"))
    remaining = [slot for slot in slots if slot.desired != Slot.Desired.REMOVING]
    refusal = _removal_refusal(source, [] if with_slots else remaining)
    making, undo = intentions.left_on(source)
    if making and not leave_on_source and refusal is None:
        refusal = _slot_being_made(source, making, undo)
    acts = [plan_drop(slot, leave_on_source=leave_on_source) for slot in remaining]
    consequences = [
        f"{slot.name}: {sentence}"
        for slot, act in zip(remaining, acts, strict=True)
        for sentence in act.consequences
    ]
    if undo:
        consequences.append(
            f"Objects of the unfinished slot {', '.join(making)} stay on {source}. Run this there "
            f"yourself: {'; '.join(undo)}. Until you do, a slot retains WAL there."
        )
    if not remaining:
        consequences.append(f"Nothing is changed on the server of {source}.")
    consequences.append(
        "Its samples, its alerts and what was read in other programs' slots are deleted. The "
        "source is deleted after the records of its slots."
        if slots
        else "Its samples, its alerts and what was read in other programs' slots are deleted now."
    )
    return Plan(
        title=f"Remove {source}",
        on=source.name,
        statements=tuple(statement for act in acts for statement in act.statements),
        consequences=tuple(consequences),
        typed=source.name,
        refusal=refusal,
    )


def _removal_refusal(source: Source, in_the_way: list[Slot]) -> SourceProblem | None:
    """Return why the source cannot be removed: a removal is under way, or slots remain."""
    if source.removing_at is not None:
        return SourceProblem("removing", f"{source} is being removed", "Nothing to do")
    if not in_the_way:
        return None
    names = ", ".join(slot.name for slot in in_the_way)
    return SourceProblem(
        "has_slots",
        f"source {source} still has slots ({names}), which retain WAL on its server",
        f"Remove each slot first ('replview slot remove {source} SLOT'), or all of them together "
        "with the source",
        "with_slots",
    )


def remove_source(
    source: Source,
    *,
    by: str,
    with_slots: bool = False,
    leave_on_source: bool = False,
    say: Say = silent,
) -> bool:
    """Drop what replview made there, then delete the source.

    Returns False if the source goes only after the records of its slots. Raises ``SourceProblem``;
    slots dropped before that stay dropped.
    """
    plan_remove(source, with_slots=with_slots, leave_on_source=leave_on_source).check()
    for slot in Slot.objects.filter(source=source, temporary=False).order_by("name"):
        if slot.desired != Slot.Desired.REMOVING:
            drop_slot(slot, by=by, leave_on_source=leave_on_source, say=say)
    note_source(source, "remove", by=by)
    if Slot.objects.filter(source=source).exists():
        Source.objects.filter(pk=source.pk).update(removing_at=timezone.now())
        return False
    source.delete()
    return True


def _slot_being_made(source: Source, making: list[str], undo: list[str]) -> SourceProblem:
    return SourceProblem(
        "being_made",
        f"slot {', '.join(making)} is being created on {source}, or a process ended while it "
        "created it",
        "Wait until the slot is created, or until replview has undone what was created (within "
        "two minutes if the source can be reached), and try again. Or remove the source only "
        f"here, and run this on its server yourself: {'; '.join(undo)}",
        "leave_on_source",
    )


def check_new_name(name: str) -> None:
    """Raise ``SourceProblem`` if the name is invalid or another source has it."""
    if fault := name_fault(name):
        raise SourceProblem("bad_name", fault, "Choose another name")
    if Source.objects.filter(name=name).exists():
        raise _name_taken(name)


def _name_taken(name: str) -> SourceProblem:
    remedy = "Choose another name, or remove that source first"
    return SourceProblem("name_taken", f"there is already a source {name}", remedy)


def _rename_in_filters(former: str, name: str) -> None:
    """Replace the name in ``slot=former/…`` of saved filters."""
    for row in SavedFilter.objects.filter(query__contains="slot="):
        query = QueryDict(row.query, mutable=True)
        source, slash, slot = query.get("slot", "").rpartition("/")
        if slash and source == former:
            query["slot"] = f"{name}/{slot}"
            row.query = query.urlencode(safe="/")
            row.save(update_fields=["query"])
