"""The receivers' tasks, where the parts meet: receiver, store and live know nothing of each other.

One long task a slot, on workers with a thread pool. Beat proposes slots that nobody reads; the
lease in the store decides who does.
"""

import logging
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from celery import current_app, shared_task
from celery.utils.nodenames import worker_direct
from django.conf import settings
from kombu.exceptions import OperationalError

from replview.acts.publications import LOOK_AT_PUBLICATIONS_OF
from replview.acts.slot_making import PROPOSE_RECEIVERS
from replview.catalog.problems import SourceProblem
from replview.jobs.running import chore, stopping
from replview.live.publisher import publisher
from replview.receiver.run import receive
from replview.receiver.sessions.pump import Listeners
from replview.store.connecting import orm_connection
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Slot, Source

log = logging.getLogger(__name__)

#: How long a worker may take to answer when beat looks for one.
_PING_SECONDS = 0.5
#: Looks at the publications that receivers ask for: so far apart, and of no use after so long.
_LOOK_SECONDS = 1.0
_LOOK_EXPIRES_SECONDS = 15.0
_UNREAD = f"""
    EXISTS (SELECT FROM slot WHERE desired = 'running' AND NOT temporary AND (lease_owner = ''
            OR heartbeat_at IS NULL
            OR heartbeat_at < clock_timestamp() - interval '{settings.LEASE_SECONDS} s'))
"""


def conninfo_of(source_id: int) -> str:
    """The source's connection string, with its password. Raises ``SourceProblem``."""
    try:
        with orm_connection():
            return full_conninfo(Source.objects.get(pk=source_id))
    except UNUSABLE as error:
        remedy = "Remove the source and add it again with a DSN that works"
        raise SourceProblem("bad_dsn", str(error), remedy) from None


@shared_task(name="replview.receive", bind=True, ignore_result=True)
def receive_slot(self: Any, slot_id: int) -> None:
    """Receive one slot until this worker stops, the slot is stopped, or another takes it."""
    wakes = publisher()
    receive(
        slot_id,
        owner=str(self.request.hostname),
        stop=SlotStop(stopping),
        conninfo_of=conninfo_of,
        listeners=Listeners(
            committed=lambda slot, incarnation, seq, moved: wakes.wake(
                slot, incarnation, seq, moved
            ),
            slot_changed=wakes.slot_changed,
            relation_came=AskedLooks().ask,
        ),
    )


class AskedLooks:
    """Asks for a look at the publications of a slot's source, once a second at most: a stream may
    tell of hundreds of tables at once. What is not asked for is found by the regular looks.
    """

    def __init__(self) -> None:
        self._asked_at = float("-inf")

    def ask(self, slot_id: int) -> None:
        """Ask for a look, which expires where no worker is free for it."""
        if time.monotonic() - self._asked_at < _LOOK_SECONDS:
            return
        self._asked_at = time.monotonic()
        with suppress(OperationalError):  # the broker is away: the regular looks go on
            current_app.send_task(
                LOOK_AT_PUBLICATIONS_OF, [slot_id], expires=_LOOK_EXPIRES_SECONDS, retry=False
            )


class SlotStop(threading.Event):
    """Set when the slot is to stop, or the whole worker."""

    def __init__(self, worker: threading.Event) -> None:
        super().__init__()
        self._worker = worker

    def is_set(self) -> bool:
        return super().is_set() or self._worker.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Until told to stop or ``timeout`` seconds have passed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
            if left <= 0:
                return False
            super().wait(left)
        return True


def choose_worker(workers: list[str], load: Counter[str], *, former: str) -> str:
    """The worker with the fewest slots, ties by chance; not the one whose lease just ran out.

    That one may still answer pings though it cannot reach the store: offered to it again and
    again, its slot would wait for ever.
    """
    others = [name for name in workers if name != former] or workers
    return min(others, key=lambda name: (load[name], random.random()))


def propose_receivers() -> None:
    """Offer each slot that is wanted and that nobody reads to the worker with the fewest slots."""
    now = time.time()
    orphans, load = [], Counter[str]()
    for slot in Slot.objects.filter(desired=Slot.Desired.RUNNING, temporary=False):
        beat = slot.heartbeat_at
        if slot.lease_owner and beat and now - beat.timestamp() < settings.LEASE_SECONDS:
            load[slot.lease_owner] += 1
        else:
            orphans.append((slot.pk, slot.lease_owner))
    if not orphans:
        return
    answers = current_app.control.ping(timeout=_PING_SECONDS)
    workers = [name for answer in answers for name in answer if name.startswith("receivers")]
    for slot_id, former in orphans:
        queue: Any = "receivers"
        if workers:
            # Its own queue: the shared one would go to whichever worker fetches first.
            worker = choose_worker(workers, load, former=former)
            load[worker] += 1
            queue = worker_direct(worker)
        receive_slot.apply_async([slot_id], queue=queue, expires=settings.LEASE_SECONDS)


chore(propose_receivers, PROPOSE_RECEIVERS, when=_UNREAD)
