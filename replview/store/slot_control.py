"""What somebody decides about a slot: to connect anew, to give it up."""

from django.db.models import F
from django.utils import timezone

from replview.store.models import Slot

#: ``Slot.problem_code`` of such a slot; starting it creates it anew.
GIVEN_UP = "given_up"
#: The columns of a slot with which nothing is wrong.
NO_PROBLEM = {"problem_code": "", "problem_cause": "", "problem_remedy": ""}


def give_up(slot: Slot, by: str) -> None:
    """Its record ends here; what is committed until it is created anew is missing from it."""
    Slot.objects.filter(pk=slot.pk).update(
        desired=Slot.Desired.STOPPED,
        state=Slot.State.STOPPED,
        state_since=timezone.now(),
        problem_code=GIVEN_UP,
        problem_cause=f"{by} dropped the slot on its source and kept the record",
        problem_remedy=f"replview slot start {slot.source.name} {slot.name} creates it anew: "
        "history has a gap until then",
        retry_at=None,
    )


def reopen_all(source_id: int) -> int:
    """Have a source's receivers connect anew; how many. What is half received comes again."""
    wanted = Slot.objects.filter(source_id=source_id, desired=Slot.Desired.RUNNING)
    return _reopen(list(wanted.exclude(temporary=True).values_list("pk", flat=True)))


def reopen(slot: Slot) -> int:
    """Have the receiver of one slot connect anew, whatever is wanted of the slot."""
    return _reopen([slot.pk])


def _reopen(slot_ids: list[int]) -> int:
    # Raising the epoch ends the receiver that reads; the next begins within two seconds.
    return Slot.objects.filter(pk__in=slot_ids).update(
        epoch=F("epoch") + 1, lease_owner="", heartbeat_at=None, retry_at=None
    )


def forget_problem(slot: Slot) -> None:
    Slot.objects.filter(pk=slot.pk).update(**NO_PROBLEM)
