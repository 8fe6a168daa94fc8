"""Having receivers connect anew, without stopping them for anybody to see."""

from django.db.models import F

from replview.store.models import Slot


def reopen_all(source_id: int) -> int:
    """Have the receivers of a source connect with the address and password it has now; returns
    how many slots that are. What they hold half received comes again.
    """
    wanted = Slot.objects.filter(source_id=source_id, desired=Slot.Desired.RUNNING)
    return _reopen(list(wanted.exclude(temporary=True).values_list("pk", flat=True)))


def reopen(slot: Slot) -> int:
    """The same for one slot, whatever is wanted of it."""
    return _reopen([slot.pk])


def _reopen(slot_ids: list[int]) -> int:
    # Raising the epoch ends the receiver that reads; the next begins within two seconds.
    return Slot.objects.filter(pk__in=slot_ids).update(
        epoch=F("epoch") + 1, lease_owner="", heartbeat_at=None, retry_at=None
    )
