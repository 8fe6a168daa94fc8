"""Slots that were dropped on their source because somebody wanted that, their record kept."""

from django.utils import timezone

from replview.store.models import Slot

#: ``Slot.problem_code`` of such a slot; starting it creates it anew.
GIVEN_UP = "given_up"


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
