"""Change a slot's WAL budget, and record what happens at the budget."""

from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.text import capfirst
from psycopg import sql

from replview.store.models import Slot, SlotEvent, WatchedSlot
from replview.store.slot_control import NO_PROBLEM
from replview.store.slot_log import add_line, after_seq
from replview.store.write.access_record import Action, note

#: Problem code of a slot that replview dropped at its budget.
DROPPED = "wal_budget"
_DROP_TEXTS = {
    "wal_budget_bytes": "WAL budget",
    "protect": "what comes first at the budget",
    "heartbeat_seconds": "heartbeat",
}
#: SQL that is true when ``watched_with_budget`` may find a slot.
ANY_WITH_BUDGET = sql.SQL(
    "EXISTS (SELECT FROM slot WHERE wal_budget_bytes IS NOT NULL OR problem_code = {dropped})"
).format(dropped=DROPPED)


def change_budget(slot: Slot, changed: dict[str, Any], *, by: str) -> Slot:
    """Store ``wal_budget_bytes``, ``protect`` and ``heartbeat_seconds`` where they differ.

    This writes a line into the slot's log, and returns the slot as it is now.
    """
    with transaction.atomic():
        row = Slot.objects.select_for_update().select_related(None).get(pk=slot.pk)
        differing = {name: new for name, new in changed.items() if getattr(row, name) != new}
        if differing:
            Slot.objects.filter(pk=slot.pk).update(**differing)
            names = ", ".join(_DROP_TEXTS[name] for name in differing)
            former = {name: getattr(row, name) for name in differing}
            detail = {"was": former, "is": differing, "by": by}
            add_line(row, "budget", f"Changed by {by}: {names}.", detail=detail)
            note(Action.CHANGED_SLOT, subject=f"{slot}: {names}", source_id=row.source_id)
    slot.refresh_from_db()
    return slot


def watched_with_budget() -> QuerySet[WatchedSlot]:
    """Return replview's slots with a budget, or about to be dropped, as last seen."""
    has_budget = Q(slot__wal_budget_bytes__isnull=False) | Q(slot__problem_code=DROPPED)
    slots = WatchedSlot.objects.select_related("slot__source", "slot__incarnation")
    return slots.filter(has_budget, slot__temporary=False).exclude(
        slot__desired=Slot.Desired.REMOVING
    )


def warned_since_below_half(slot: Slot) -> bool:
    """Return whether the last warning in the log, of a budget that is half used, still holds."""
    events = SlotEvent.objects.filter(slot=slot, kind="budget", detail__has_key="warned")
    last = events.order_by("-pk").first()
    return last is not None and bool(last.detail["warned"])


def log_budget(slot: Slot, message: str, **detail: Any) -> None:
    """Write a line about the budget into the slot's log."""
    detail["budget_bytes"] = slot.wal_budget_bytes
    position = {"lsn": slot.checkpoint_lsn, "after_commit_seq": after_seq(slot)}
    add_line(slot, "budget", message, detail=detail, **position)


def ask_to_stop(slot: Slot, cause: str) -> bool:
    """Stop the receiver of a slot that will be dropped; return False if that is off by now."""
    stopped = {"desired": Slot.Desired.STOPPED, "problem_code": DROPPED, "problem_cause": cause}
    return bool(_as_chosen(slot).exclude(desired=Slot.Desired.REMOVING).update(**stopped))


def call_off(slot: Slot) -> None:
    """Cancel a planned drop of the slot, so that its receiver may continue."""
    stopped = Slot.objects.filter(pk=slot.pk, problem_code=DROPPED, desired=Slot.Desired.STOPPED)
    stopped.update(desired=Slot.Desired.RUNNING, **NO_PROBLEM)


def still_chosen(slot: Slot) -> bool:
    """Return whether the slot must still be dropped: same choice, and its receiver stopped."""
    return _as_chosen(slot).filter(desired=Slot.Desired.STOPPED).exists()


def record_dropped(slot: Slot, cause: str, remedy: str, detail: dict[str, Any]) -> None:
    """Record that the slot was dropped: its record ends, with a gap until it is created again."""
    slot.refresh_from_db()
    with transaction.atomic():
        Slot.objects.filter(pk=slot.pk).update(
            desired=Slot.Desired.STOPPED,
            state=Slot.State.FAILED,
            state_since=timezone.now(),
            problem_code=DROPPED,
            problem_cause=cause,
            problem_remedy=remedy,
            retry_at=None,
        )
        message = (
            f"{capfirst(cause)}. The record ends here: it will not contain what commits until "
            "the slot is created again."
        )
        log_budget(slot, message, dropped_incarnation=slot.incarnation_id, **detail)


def _as_chosen(slot: Slot) -> QuerySet[Slot]:
    """Return the slot as a query that is empty if its choice or budget was changed."""
    chosen = {"protect": Slot.Protect.DATABASE, "wal_budget_bytes": slot.wal_budget_bytes}
    return Slot.objects.filter(pk=slot.pk, **chosen)
