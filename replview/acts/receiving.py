"""Start and stop receiving a slot; a slot that its source no longer has is created again."""

from django.utils.text import capfirst

from replview.acts.noting import note_slot
from replview.acts.publications import remade_steps
from replview.acts.slot_making import PROPOSE_RECEIVERS, record_made
from replview.catalog.connections import reading
from replview.catalog.plan.carrying_out import Say, carry_out
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.plan import Plan
from replview.catalog.plan.slot_request import SlotRequest
from replview.catalog.problems import SourceProblem
from replview.health.stopping import limits_once_stopped
from replview.jobs.running import announce
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, SlotEvent, WatchedSlot
from replview.store.slot_budget import DROPPED
from replview.store.slot_control import GIVEN_UP, forget_problem
from replview.text.formats import bytes_words

#: Problems that mean that the source has no such slot.
GONE = (DROPPED, GIVEN_UP, "slot_missing")
_DEADLINE_SECONDS = 60.0


def silent(line: str) -> None:
    """Ignore the news of a step, for callers without a reader."""


def plan_stop(slot: Slot) -> Plan:
    """Plan to stop receiving: the slot stays on its source and goes on holding WAL."""
    title = f"Stop receiving {slot}"
    refusal = _change_refusal(slot)
    if refusal is None and slot.desired == Slot.Desired.STOPPED:
        cause = f"slot {slot} is already stopped"
        refusal = SourceProblem("stopped", cause, "Start it, or drop it")
    if refusal is not None:
        return Plan(title=title, on=slot.source.name, refusal=refusal)
    return Plan(
        title=title,
        on=slot.source.name,
        consequences=(
            f"The slot stays on {slot.source} and retains WAL until it is started again"
            f"{_retained_text(slot)}.",
            *limits_once_stopped(slot),
            "If it is started again in time, it continues where the record ends and no change is "
            "lost.",
        ),
    )


def stop(slot: Slot, *, by: str) -> None:
    """Make the receiver stop, within a second or two. Raises ``SourceProblem``."""
    if (refusal := _change_refusal(slot)) is not None:
        raise refusal.anew()
    not_stopped = Slot.objects.filter(pk=slot.pk).exclude(desired=Slot.Desired.STOPPED)
    if not_stopped.update(desired=Slot.Desired.STOPPED):
        note_slot(slot, "stop", "Receiving was stopped.", by=by)


def plan_start(slot: Slot) -> Plan:
    """Plan to receive the slot again, after creating it again where it is gone.

    Raises ``SourceProblem`` where the source cannot be read, and the errors of a DSN.
    """
    title = f"Start receiving {slot}"
    if (refusal := _change_refusal(slot)) is not None:
        return Plan(title=title, on=slot.source.name, refusal=refusal)
    plan = _plan_recreation(slot)
    if plan is not None:
        return Plan(
            title=f"Create {slot} again and receive it",
            on=slot.source.name,
            statements=plan.statements,
            consequences=(
                "Transactions that committed since the record ended cannot be recorded: a new "
                "incarnation of the slot begins, and history shows the gap.",
                *(f"{capfirst(note.text)}." for note in plan.notes),
                *(
                    f"Creating the slot now would wait for {transaction}."
                    for transaction in plan.waits_for
                ),
            ),
        )
    if slot.desired == Slot.Desired.RUNNING and slot.problem_code not in GONE:
        cause = f"slot {slot} is already being received"
        refusal = SourceProblem("started", cause, "Stop it first")
        return Plan(title=title, on=slot.source.name, refusal=refusal)
    return Plan(
        title=title,
        on=slot.source.name,
        consequences=(
            "Receiving continues where the record ends, within a few seconds.",
            f"The source sends the changes in the WAL that it retains{_retained_text(slot)}.",
        ),
    )


def start(slot: Slot, *, by: str, say: Say = silent) -> None:
    """Receive the slot, and create it first where it is gone. Raises ``SourceProblem``."""
    if (refusal := _change_refusal(slot)) is not None:
        raise refusal.anew()
    plan = _plan_recreation(slot)
    if plan is not None:
        carry_out(full_conninfo(slot.source), plan, say)
        record_made(slot, plan)
        Slot.objects.filter(pk=slot.pk).update(owned=True)
    if slot.problem_code in GONE:
        # The slot exists now. The receiver reports whether the history has a gap.
        forget_problem(slot)
    Slot.objects.filter(pk=slot.pk).update(desired=Slot.Desired.RUNNING)
    announce(PROPOSE_RECEIVERS)
    message = "The slot was created again." if plan else "Receiving was started."
    statements = [str(step) for step in plan.statements] if plan else []
    note_slot(slot, "start", message, by=by, statements=statements)


def _plan_recreation(slot: Slot) -> SlotPlan | None:
    """Return the plan to create the slot again as it was.

    None where the source still has it, or where its plugin is not pgoutput.
    """
    if slot.problem_code not in GONE or slot.plugin != "pgoutput":
        return None
    events = SlotEvent.objects.filter(slot=slot, kind__in=["created", "adopted"])
    event = events.order_by("-pk").first()
    detail = event.detail if event else {}
    request = SlotRequest(
        slot_name=slot.name,
        publications=tuple(slot.publications),
        two_phase=bool(detail.get("two_phase")),
        failover=bool(detail.get("failover")),
        wal_budget_bytes=slot.wal_budget_bytes,
        protect=slot.protect,
        heartbeat_seconds=slot.heartbeat_seconds,
    )
    conninfo = full_conninfo(slot.source)
    try:
        with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            return make_plan(connection, request, remade=remade_steps(connection, slot))
    except SourceProblem as refusal:
        if refusal.code != "slot_exists":
            raise
        return None


def _change_refusal(slot: Slot) -> SourceProblem | None:
    if slot.desired == Slot.Desired.REMOVING:
        cause = f"slot {slot} is being removed"
        return SourceProblem("removing", cause, "Add it again when it has been removed")
    if slot.temporary:
        return SourceProblem(
            "temporary",
            f"slot {slot} is temporary: the server drops it when its connection ends",
            "End the watch that reads it",
        )
    return None


def _retained_text(slot: Slot) -> str:
    """Return ``, 2.1 GB by now``, the retained WAL when last sampled; empty where unknown."""
    watched_slot = WatchedSlot.objects.filter(slot=slot, gone_at=None).first()
    retained_bytes = watched_slot.facts.get("retained_wal_bytes") if watched_slot else None
    return f", {bytes_words(int(retained_bytes))} by now" if retained_bytes is not None else ""
