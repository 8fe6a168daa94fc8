"""Starting and stopping to receive a slot; one that its source no longer has is made anew, one that
somebody else made is adopted: read and advanced, and never dropped.
"""

from collections.abc import Sequence

from django.db import IntegrityError

from replview.acts.noting import note_slot
from replview.acts.publications import remade_steps
from replview.acts.slot_making import PROPOSE_RECEIVERS, check_unrecorded, make_slot, record_made
from replview.catalog.connections import reading
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.plan import Plan, Say, carry_out
from replview.catalog.plan.slot_request import SlotRequest
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import read_publications
from replview.catalog.slots import SlotFacts, read_slots, read_stat_replication
from replview.catalog.wal_budget import size_words
from replview.jobs.running import announce
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, SlotEvent, Source, WatchedSlot
from replview.store.slot_control import DROPPED, GIVEN_UP, forget_problem

#: Problems after which the source has no such slot.
GONE = (DROPPED, GIVEN_UP, "slot_missing")
_DEADLINE_SECONDS = 60.0
_ADOPT_SECONDS = 20.0
#: Not a refusal of this slot: nothing is known of it.
_UNREACHED = {"wrong_password", "no_such_database", "no_such_role", "no_login", "unreachable",
              "unknown_host", "unknown_service", "hba_refused", "tls", "starting_up",
              "too_many_connections", "refused", "bad_dsn"}  # fmt: skip


def silent(line: str) -> None:
    """Take a step's news and do nothing, where nobody listens."""


def plan_stop(slot: Slot) -> Plan:
    """Plan to stop receiving: the slot stays on its source and goes on holding WAL."""
    title = f"Stop receiving {slot}"
    refusal = _unchangeable(slot)
    if refusal is None and slot.desired == Slot.Desired.STOPPED:
        cause = f"slot {slot} is stopped already"
        refusal = SourceProblem("stopped", cause, "Start it, or drop it")
    if refusal is not None:
        return Plan(title=title, on=slot.source.name, refusal=refusal)
    return Plan(
        title=title,
        on=slot.source.name,
        consequences=(
            f"The slot stays on {slot.source} and keeps WAL for us until it is started again"
            f"{_held(slot)}.",
            _limit(slot),
            "Nothing is lost: when it is started, it goes on where the record ends.",
        ),
    )


def stop(slot: Slot, *, by: str) -> None:
    """Have the receiver stop, within a second or two. Raises ``SourceProblem``."""
    if (refusal := _unchangeable(slot)) is not None:
        raise refusal.anew()
    wanted = Slot.objects.filter(pk=slot.pk).exclude(desired=Slot.Desired.STOPPED)
    if wanted.update(desired=Slot.Desired.STOPPED):
        note_slot(slot, "stop", "Receiving was stopped.", by=by)


def plan_start(slot: Slot) -> Plan:
    """Plan to receive the slot again, or to create it anew first. Raises ``SourceProblem`` where
    the source cannot be asked, and what a DSN may raise.
    """
    title = f"Start receiving {slot}"
    if (refusal := _unchangeable(slot)) is not None:
        return Plan(title=title, on=slot.source.name, refusal=refusal)
    plan = _anew(slot)
    if plan is not None:
        return Plan(
            title=f"Create {slot} anew and receive it",
            on=slot.source.name,
            statements=plan.statements,
            consequences=(
                "What was committed since the record ended is not to be had: a new incarnation of "
                "the slot begins, and history shows the gap.",
                *(f"{note.text[:1].upper()}{note.text[1:]}." for note in plan.notes),
                *(f"The slot would now wait for {item}." for item in plan.waits_for),
            ),
        )
    if slot.desired == Slot.Desired.RUNNING and slot.problem_code not in GONE:
        cause = f"slot {slot} is being received already"
        refusal = SourceProblem("started", cause, "Stop it first")
        return Plan(title=title, on=slot.source.name, refusal=refusal)
    return Plan(
        title=title,
        on=slot.source.name,
        consequences=(
            "It goes on where the record ends, within a few seconds.",
            f"The source sends what it kept for us{_held(slot)}.",
        ),
    )


def start(slot: Slot, *, by: str, say: Say = silent) -> None:
    """Receive the slot, which is created first where it is gone. Raises ``SourceProblem``."""
    if (refusal := _unchangeable(slot)) is not None:
        raise refusal.anew()
    plan = _anew(slot)
    if plan is not None:
        carry_out(full_conninfo(slot.source), plan, say)
        record_made(slot, plan)
        Slot.objects.filter(pk=slot.pk).update(owned=True)
    if slot.problem_code in GONE:
        # Created, or there after all: the receiver tells whether history has a gap.
        forget_problem(slot)
    Slot.objects.filter(pk=slot.pk).update(desired=Slot.Desired.RUNNING)
    announce(PROPOSE_RECEIVERS)
    words = "The slot was created anew." if plan else "Receiving was started."
    statements = [str(step) for step in plan.statements] if plan else []
    note_slot(slot, "start", words, by=by, statements=statements)


def _anew(slot: Slot) -> SlotPlan | None:
    """What creating it takes, as it was made before; None where it is there, or is not ours to
    make: replview makes slots of pgoutput alone.
    """
    if slot.problem_code not in GONE or slot.plugin != "pgoutput":
        return None
    events = SlotEvent.objects.filter(slot=slot, kind__in=["created", "adopted"])
    event = events.order_by("-pk").first()
    made = event.detail if event else {}
    request = SlotRequest(
        slot_name=slot.name,
        publications=tuple(slot.publications),
        two_phase=bool(made.get("two_phase")),
        failover=bool(made.get("failover")),
        wal_budget_bytes=slot.wal_budget_bytes,
        protect=slot.protect,
        heartbeat_seconds=slot.heartbeat_seconds,
    )
    conninfo = full_conninfo(slot.source)
    try:
        with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            return make_plan(connection, request, remade=remade_steps(connection, slot))
    except SourceProblem as trouble:
        if trouble.code != "slot_exists":
            raise
        return None


def _unchangeable(slot: Slot) -> SourceProblem | None:
    if slot.desired == Slot.Desired.REMOVING:
        cause = f"slot {slot} is being removed"
        return SourceProblem("removing", cause, "Add it anew when it is gone")
    if slot.temporary:
        return SourceProblem(
            "temporary",
            f"slot {slot} is a temporary one: it lives as long as its connection",
            "End the watch it belongs to",
        )
    return None


def _held(slot: Slot) -> str:
    """``, 2.1 GB by now``, as last seen; nothing where it is not known."""
    watched = WatchedSlot.objects.filter(slot=slot, gone_at=None).first()
    held = watched.facts.get("retained_wal_bytes") if watched else None
    return f", {size_words(int(held))} by now" if held is not None else ""


def _limit(slot: Slot) -> str:
    """What bounds the WAL it holds, in a sentence."""
    if slot.wal_budget_bytes is not None and slot.protect == Slot.Protect.DATABASE:
        return (
            f"At its WAL budget of {size_words(slot.wal_budget_bytes)} replview drops the slot, "
            "and the record has a gap."
        )
    limit = slot.source.max_slot_wal_keep_bytes
    if limit is None:
        return "Whether the server limits what a slot may hold is unknown."
    if limit < 0:
        return "No limit is set: a slot that nobody reads can fill the disk of the source."
    return (
        f"At max_slot_wal_keep_size ({size_words(limit)}) the server invalidates the slot, and the "
        "record has a gap."
    )


def publications_on(source: Source) -> list[str]:
    """Those a slot of pgoutput may be read with. Raises ``SourceProblem`` and what a DSN may."""
    with reading(full_conninfo(source), deadline_seconds=_ADOPT_SECONDS) as connection:
        return [publication.name for publication in read_publications(connection)]


def plan_adopt(source: Source, name: str, publications: Sequence[str] = ()) -> Plan:
    """Plan to adopt a slot. Raises ``SourceProblem`` where the source cannot be asked."""
    title = f"Adopt {source}/{name}"
    try:
        plan, facts = _plan_adoption(source, name, publications)
    except SourceProblem as error:
        if error.code in _UNREACHED:
            raise
        return Plan(title=title, on=source.name, refusal=error)
    sentences = [
        "Nothing is made on the source: replview reads the slot as it is, from where it stands, "
        "and confirms what it has stored.",
        "A slot has one reader. Whoever read it until now finds changes missing that replview "
        "has confirmed: adopt only a slot that nobody needs any more.",
        "replview never drops it: removing it later only forgets it here.",
    ]
    if facts.retained_wal_bytes:
        sentences.append("What waits in it is received at once.")
    sentences += [
        f"{note.text[:1].upper()}{note.text[1:]}."
        for note in plan.notes
        if "adopted" not in note.text
    ]
    return Plan(title=title, on=source.name, consequences=tuple(sentences), typed=name)


def adopt(source: Source, name: str, publications: Sequence[str] = (), *, by: str) -> Slot:
    """Adopt the slot: begin to receive it. Raises ``SourceProblem``."""
    plan, _ = _plan_adoption(source, name, publications)
    try:
        slot = make_slot(source, full_conninfo(source), plan, silent, stopped=False, options={})
    except IntegrityError:
        raise _ours(source, name) from None
    note_slot(slot, "adopt", "The slot was adopted.", by=by, publications=list(plan.publications))
    return slot


def _plan_adoption(
    source: Source, name: str, publications: Sequence[str]
) -> tuple[SlotPlan, SlotFacts]:
    if Slot.objects.filter(source=source, name=name).exists():
        raise _ours(source, name)
    check_unrecorded(source, name)
    with reading(full_conninfo(source), deadline_seconds=_ADOPT_SECONDS) as connection:
        found = next((slot for slot in read_slots(connection) if slot.slot_name == name), None)
        if found is None:
            raise SourceProblem("no_such_slot", f"{source} has no slot {name}", "Look at its slots")
        if found.slot_type != "logical":
            raise SourceProblem(
                "other_slot",
                f"slot {name} is a physical one: it has WAL, but no changes of rows",
                "Choose a logical slot",
            )
        if found.active:
            reader = read_stat_replication(connection).get(found.active_pid or 0, {})
            who = f" ({reader['application_name']})" if reader.get("application_name") else ""
            raise SourceProblem(
                "slot_in_use",
                f"process {found.active_pid}{who} reads slot {name}",
                "Stop that reader for good first: a slot has one",
            )
        if found.wal_status == "lost" or found.invalidation_reason:
            cause = f"slot {name} is lost: it can never be read again"
            raise SourceProblem("slot_lost", cause, "Drop it")
        if found.plugin == "pgoutput" and not publications:
            raise SourceProblem(
                "no_publications",
                f"no publication is chosen for slot {name}, and pgoutput sends what those publish",
                "Choose the publications its reader used",
            )
        request = SlotRequest(slot_name=name, publications=tuple(publications), adopt=True)
        return make_plan(connection, request), found


def _ours(source: Source, name: str) -> SourceProblem:
    return SourceProblem("ours", f"replview already has a slot {source}/{name}", "Start it")
