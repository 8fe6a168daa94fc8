"""Adopt a slot that replview did not create: read and advance it, and never drop it."""

from collections.abc import Sequence

from django.db import IntegrityError
from django.utils.text import capfirst

from replview.acts.noting import note_slot
from replview.acts.receiving import silent
from replview.acts.slot_making import check_unrecorded, make_slot
from replview.catalog.connections import reading
from replview.catalog.plan.new_slot import ADOPTED, SlotPlan, make_plan
from replview.catalog.plan.plan import Plan
from replview.catalog.plan.slot_request import SlotRequest
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import read_publications
from replview.catalog.slots import SlotFacts, read_slots, read_stat_replication
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, Source

_ADOPT_SECONDS = 20.0
#: Codes of problems with the source. They are no refusal of the slot, which was never read.
_UNREACHABLE_CODES = {
    "wrong_password", "no_such_database", "no_such_role", "no_login", "unreachable", "unknown_host",
    "unknown_service", "hba_refused", "tls", "starting_up", "too_many_connections", "refused",
    "bad_dsn",
}  # fmt: skip


def publications_on(source: Source) -> list[str]:
    """Return the publications of the source. Raises ``SourceProblem`` and a DSN's errors."""
    with reading(full_conninfo(source), deadline_seconds=_ADOPT_SECONDS) as connection:
        return [publication.name for publication in read_publications(connection)]


def plan_adopt(source: Source, name: str, publications: Sequence[str] = ()) -> Plan:
    """Plan to adopt a slot. Raises ``SourceProblem`` where the source cannot be read."""
    title = f"Adopt {source}/{name}"
    try:
        plan, facts = _plan_adoption(source, name, publications)
    except SourceProblem as error:
        if error.code in _UNREACHABLE_CODES:
            raise
        return Plan(title=title, on=source.name, refusal=error)
    sentences = [
        "Nothing is created on the source: replview reads the slot from its confirmed position, "
        "and confirms what it has stored.",
        "A slot has one reader. Its former reader would miss the changes that replview has "
        "confirmed: adopt only a slot that no other program needs.",
        "replview never drops this slot on the source: removing it later only deletes its record.",
    ]
    if facts.retained_wal_bytes:
        sentences.append("The changes that wait in the slot are received at once.")
    sentences += [f"{capfirst(note.text)}." for note in plan.notes if note != ADOPTED]
    return Plan(title=title, on=source.name, consequences=tuple(sentences), typed=name)


def adopt(source: Source, name: str, publications: Sequence[str] = (), *, by: str) -> Slot:
    """Adopt the slot and begin to receive it. Raises ``SourceProblem``."""
    plan, _ = _plan_adoption(source, name, publications)
    try:
        slot = make_slot(source, full_conninfo(source), plan, silent, stopped=False, options={})
    except IntegrityError:
        raise _already_received(source, name) from None
    note_slot(slot, "adopt", "The slot was adopted.", by=by, publications=list(plan.publications))
    return slot


def _plan_adoption(
    source: Source, name: str, publications: Sequence[str]
) -> tuple[SlotPlan, SlotFacts]:
    if Slot.objects.filter(source=source, name=name).exists():
        raise _already_received(source, name)
    check_unrecorded(source, name)
    with reading(full_conninfo(source), deadline_seconds=_ADOPT_SECONDS) as connection:
        existing = next((slot for slot in read_slots(connection) if slot.slot_name == name), None)
        if existing is None:
            cause = f"{source} has no slot {name}"
            raise SourceProblem("no_such_slot", cause, "Choose one of the slots that it has")
        if existing.slot_type != "logical":
            raise SourceProblem(
                "other_slot",
                f"slot {name} is a physical slot: it has WAL, but no row changes",
                "Choose a logical slot",
            )
        if existing.active:
            reader = read_stat_replication(connection).get(existing.active_pid or 0, {})
            program = f" ({reader['application_name']})" if reader.get("application_name") else ""
            raise SourceProblem(
                "slot_in_use",
                f"process {existing.active_pid}{program} reads slot {name}",
                "Stop that reader permanently first: a slot can have only one",
            )
        if existing.wal_status == "lost" or existing.invalidation_reason:
            cause = f"slot {name} is lost: it can never be read again"
            raise SourceProblem("slot_lost", cause, "Drop it and create a new one")
        if existing.plugin == "pgoutput" and not publications:
            raise SourceProblem(
                "no_publications",
                f"no publication is chosen for slot {name}, and pgoutput sends only what "
                "publications publish",
                "Choose the publications that its former reader used",
            )
        request = SlotRequest(slot_name=name, publications=tuple(publications), adopt=True)
        return make_plan(connection, request), existing


def _already_received(source: Source, name: str) -> SourceProblem:
    return SourceProblem("ours", f"replview already has a slot {source}/{name}", "Use that slot")
