"""Make a slot on the source and in the store together: for commands, pages and ``apply``."""

import threading
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, transaction

from replview.acts.publications import look_at_publications
from replview.acts.slot_sweeping import sweep
from replview.catalog.plan.carrying_out import OnStep, Say, carry_out, undo
from replview.catalog.plan.new_slot import SlotPlan
from replview.catalog.plan.plan import Statement
from replview.catalog.problems import SourceProblem
from replview.jobs import intentions
from replview.jobs.running import announce
from replview.store.models import Slot, SlotEvent, SlotIntention, Source, SourceDraft
from replview.store.same_server import is_seen, recorded_elsewhere

#: The task that offers slots to the receivers' workers.
PROPOSE_RECEIVERS = "replview.propose_receivers"

#: Codes of a failed statement for which the server reported an error, so that it made nothing.
_REFUSAL_CODES = {"missing_right", "locked", "failed"}
_SWEPT_PROBLEM = SourceProblem(
    "swept",
    "creating the slot took so long that another process of replview has undone it",
    "Try again",
)


def make_slot(
    source: Source,
    conninfo: str,
    plan: SlotPlan,
    say: Say,
    *,
    stopped: bool,
    options: dict[str, Any],
    interface: str = "walsender",
    keep_aborted: bool = False,
    stop: threading.Event | None = None,
    on_step: OnStep = lambda step, state: None,
    draft: SourceDraft | None = None,
) -> Slot:
    """Carry out the plan, then store the slot; if storing fails, undo the plan.

    A new source is stored together with its slot, or not at all. Each object is recorded before its
    statement runs, so that nothing stays on the source when the process is killed.
    ``draft``: the draft that is carried out, with heartbeats.
    """
    if not plan.owned:
        check_unrecorded(source, plan.slot_name)
    desired = Slot.Desired.STOPPED if stopped else Slot.Desired.RUNNING
    slot = Slot(interface=interface, options=options, keep_aborted=keep_aborted, desired=desired)
    intention = intentions.begin(source, plan.slot_name, plan.position, draft)
    noting = _recorder(intention, on_step)
    try:
        completed = carry_out(conninfo, plan, say, stop=stop, on_step=noting)
        try:
            _store_slot(slot, source, plan, intention, draft)
        except BaseException:
            undo(conninfo, completed, say, noting)
            raise
    except BaseException as error:
        _forget_failed_intention(intention, error)
        raise
    # Look at once, because the record can vouch for publication only from the first look on.
    look_at_publications(source)
    announce(PROPOSE_RECEIVERS)
    return slot


def _store_slot(
    slot: Slot, source: Source, plan: SlotPlan, intention: SlotIntention, draft: SourceDraft | None
) -> None:
    """Save the slot, with its source if that is new, and complete the intention, in one step."""
    try:
        with transaction.atomic():
            intentions.fulfil(intention)
            if source.pk is None:
                source.save()
            slot.source = source
            slot.name = plan.slot_name
            slot.plugin = plan.plugin
            slot.publications = list(plan.publications)
            slot.owned = plan.owned
            slot.column_rules = plan.column_rules
            slot.wal_budget_bytes = plan.wal_budget_bytes
            slot.protect = plan.protect
            slot.heartbeat_seconds = plan.heartbeat_seconds
            slot.save(force_insert=True)
            record_made(slot, plan)
            if draft is not None:
                # Store this now: the worker may die and the source be renamed before it reports.
                SourceDraft.objects.filter(pk=draft.pk).update(source=source, slot=slot)
    except intentions.Swept:
        raise _SWEPT_PROBLEM.anew() from None


def check_unrecorded(source: Source, name: str) -> None:
    """Raise ``SourceProblem`` where another source of the same server already has this slot.

    A slot has one reader, and two records of it would each have gaps.
    """
    slot = recorded_elsewhere(source).get(name)
    if slot is None:
        return
    cause, remedy = "through another source of the same server", "Ask an admin for access to it"
    if is_seen(slot):
        cause = f"as {slot}: {slot.source} and {source} lead to the same server"
        remedy = f"Use {slot}; start it if it is stopped"
    raise SourceProblem("ours", f"replview already receives slot {name} {cause}", remedy)


def _recorder(intention: SlotIntention, on_step: OnStep) -> OnStep:
    """Return a callback that stores each statement before it runs, and deletes undone ones."""

    def note_step(step: Statement, state: str) -> None:
        if state == "running":
            try:
                intentions.add(intention, step.kind, step.name, str(step), step.undo)
            except intentions.Swept:
                raise _SWEPT_PROBLEM.anew() from None
        elif state == "taken back":
            # Undo the rest even without the store: a sweep will find this object gone.
            with suppress(DatabaseError):
                intentions.take_out(intention, step.undo)
        on_step(step, state)

    return note_step


def _forget_failed_intention(intention: SlotIntention, error: BaseException) -> None:
    """Undo what is left, and forget the intention only if nothing can be left.

    After a broken connection or Ctrl-C it is unknown whether the last statement ran.
    """
    with suppress(DatabaseError):
        if isinstance(error, SourceProblem) and error.code in _REFUSAL_CODES and intention.begun:
            # The statement was refused, so an object of that name is not its work.
            intentions.take_out(intention, intention.begun[-1]["undo"])
        if intention.begun:
            sweep(intention, maker_gone=True)
        else:
            intentions.forget(intention)


def record_made(slot: Slot, plan: SlotPlan) -> None:
    """Write to the slot's log what replview made on the source, the only things it ever drops."""
    SlotEvent.objects.create(
        slot=slot,
        kind="created" if plan.owned else "adopted",
        message=f"The slot was {'created' if plan.owned else 'adopted'}.",
        detail={
            "statements": [str(step) for step in plan.statements],
            "made_publications": list(plan.made_publications),
            "two_phase": plan.two_phase,
            "failover": plan.failover,
        },
    )
