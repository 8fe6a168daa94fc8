"""Write transactional messages to sources that are idle, if a slot has a heartbeat interval.

Keepalives already move the position of an idle slot. A heartbeat shows what only a transaction can
show: that changes arrive end to end at present.
"""

import datetime as dt
import logging
from concurrent.futures import Future, ThreadPoolExecutor

from django.db.models import Q
from django.utils import timezone

from replview.catalog.connections import writing
from replview.catalog.plan.new_slot import HEARTBEAT
from replview.catalog.problems import SourceProblem
from replview.store.connecting import orm_connection
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Slot

#: SQL condition that is true when a slot has a heartbeat interval.
ANY_WANTED = "EXISTS (SELECT FROM slot WHERE heartbeat_seconds IS NOT NULL)"
log = logging.getLogger(__name__)
_DEADLINE_SECONDS = 10.0
_THREADS = 4
_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="heartbeats")


def claim_due() -> list[Slot]:
    """Return the slots whose source needs a message now, and mark them as written.

    Slots that are not being received are left out, since the message would only retain WAL.
    """
    slots = Slot.objects.filter(
        heartbeat_seconds__isnull=False,
        desired=Slot.Desired.RUNNING,
        state=Slot.State.STREAMING,
        source__in_recovery=False,
    ).select_related("source")
    return [slot for slot in slots if _claim(slot)]


def _claim(slot: Slot) -> bool:
    """Return whether the slot had no commit for its interval, and mark it as written if so."""
    due_before = timezone.now() - dt.timedelta(seconds=slot.heartbeat_seconds or 0)
    idle = Q(last_commit_time=None) | Q(last_commit_time__lte=due_before)
    unwritten = Q(heartbeat_written_at=None) | Q(heartbeat_written_at__lte=due_before)
    unclaimed = Slot.objects.filter(idle, unwritten, pk=slot.pk)
    return unclaimed.update(heartbeat_written_at=timezone.now()) == 1


def write_due() -> list["Future[None]"]:
    """Start the heartbeats that are due, concurrently; each future ends when one is written."""
    return [_pool.submit(_write_heartbeat, slot) for slot in claim_due()]


def _write_heartbeat(slot: Slot) -> None:
    """Write one message, in a thread; a failure is retried when the next heartbeat is due."""
    try:
        with orm_connection():
            conninfo = full_conninfo(slot.source)
        with writing(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            connection.execute(HEARTBEAT)
    except (SourceProblem, *UNUSABLE) as error:
        log.warning("heartbeat of slot %s: not written (%s)", slot.pk, type(error).__name__)
