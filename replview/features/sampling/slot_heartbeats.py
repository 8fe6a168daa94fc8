"""Which slots a heartbeat is due for: claimed here, so that each is written once."""

import datetime as dt

from django.db.models import Q
from django.utils import timezone

from replview.store.models import Slot


def claim_due() -> list[Slot]:
    """The slots whose source is to be written to now, which then count as written to.

    None that nobody receives: a message would only pile up WAL for it.
    """
    wanted = Slot.objects.filter(
        heartbeat_seconds__isnull=False,
        desired=Slot.Desired.RUNNING,
        state=Slot.State.STREAMING,
        source__in_recovery=False,
    ).select_related("source")
    return [slot for slot in wanted if _claim(slot)]


def _claim(slot: Slot) -> bool:
    """Whether it is due, and ours to write: nothing was committed, nor a heartbeat begun, for as
    long as was chosen.
    """
    before = timezone.now() - dt.timedelta(seconds=slot.heartbeat_seconds or 0)
    idle = Q(last_commit_time=None) | Q(last_commit_time__lte=before)
    unwritten = Q(heartbeat_written_at=None) | Q(heartbeat_written_at__lte=before)
    mine = Slot.objects.filter(idle, unwritten, pk=slot.pk)
    return mine.update(heartbeat_written_at=timezone.now()) == 1
