"""Carry out decisions about a slot: to reconnect it, to give it up."""

from django.db.models import F
from django.utils import timezone

from replview.store.models import Slot

#: ``Slot.problem_code`` of a slot that was given up; starting it creates it again.
GIVEN_UP = "given_up"
#: Column values of a slot without a problem.
NO_PROBLEM = {"problem_code": "", "problem_cause": "", "problem_remedy": ""}


def give_up(slot: Slot, by: str) -> None:
    """Record that the slot was dropped on its source; a gap follows until it is created again."""
    Slot.objects.filter(pk=slot.pk).update(
        desired=Slot.Desired.STOPPED,
        state=Slot.State.STOPPED,
        state_since=timezone.now(),
        problem_code=GIVEN_UP,
        problem_cause=f"{by} dropped the slot on its source and kept the record",
        problem_remedy=f"To create it again: replview slot start {slot.source.name} {slot.name}; "
        "history has a gap until then",
        retry_at=None,
    )


def reopen_all(source_id: int) -> int:
    """Make a source's receivers reconnect; return their number.

    Transactions that are half received are sent again.
    """
    slots = Slot.objects.filter(source_id=source_id, desired=Slot.Desired.RUNNING)
    return _reopen(list(slots.exclude(temporary=True).values_list("pk", flat=True)))


def reopen(slot: Slot) -> int:
    """Make the receiver of one slot reconnect, whatever state is desired of the slot."""
    return _reopen([slot.pk])


def _reopen(slot_ids: list[int]) -> int:
    # Raising the epoch ends the current receiver; the next one begins within two seconds.
    return Slot.objects.filter(pk__in=slot_ids).update(
        epoch=F("epoch") + 1, lease_owner="", heartbeat_at=None, retry_at=None
    )


def forget_problem(slot: Slot) -> None:
    """Remove the slot's problem."""
    Slot.objects.filter(pk=slot.pk).update(**NO_PROBLEM)
