"""Transactional messages to sources on which nothing is committed, where somebody asked for them.

Keepalives already move the position of an idle slot; a heartbeat is for what only a transaction
can show: that changes would come through, end to end, now.
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

#: Whether anybody asked for any.
ANY_WANTED = "EXISTS (SELECT FROM slot WHERE heartbeat_seconds IS NOT NULL)"
log = logging.getLogger(__name__)
_DEADLINE_SECONDS = 10.0
_THREADS = 4
_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="heartbeats")


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
    """Whether it is due, nothing having been written for as long as chosen, and now ours."""
    before = timezone.now() - dt.timedelta(seconds=slot.heartbeat_seconds or 0)
    idle = Q(last_commit_time=None) | Q(last_commit_time__lte=before)
    unwritten = Q(heartbeat_written_at=None) | Q(heartbeat_written_at__lte=before)
    mine = Slot.objects.filter(idle, unwritten, pk=slot.pk)
    return mine.update(heartbeat_written_at=timezone.now()) == 1


def write_due() -> list["Future[None]"]:
    """Begin the heartbeats that are due, side by side; each future is done once it is written."""
    return [_pool.submit(_write, slot) for slot in claim_due()]


def _write(slot: Slot) -> None:
    """In a thread: one message; what fails is tried again when the next is due."""
    try:
        with orm_connection():
            conninfo = full_conninfo(slot.source)
        with writing(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            connection.execute(HEARTBEAT)
    except (SourceProblem, *UNUSABLE) as error:
        log.warning("heartbeat of slot %s: not written (%s)", slot.pk, type(error).__name__)
