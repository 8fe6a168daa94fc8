"""Celery tasks that run the receivers, and connect receiver, store and live updates.

Each slot has one long task, on workers with a thread pool. Beat proposes slots that no receiver
reads; the lease in the store decides which worker reads a slot.
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
from psycopg import sql

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

#: Seconds that workers have to answer a ping from beat.
_PING_SECONDS = 0.5
#: Least seconds between two requests to read publications, and seconds until one expires.
_LOOK_SECONDS = 1.0
_LOOK_EXPIRES_SECONDS = 15.0
_ANY_UNREAD = sql.SQL("""
    EXISTS (SELECT FROM slot WHERE desired = 'running' AND NOT temporary AND (lease_owner = ''
            OR heartbeat_at IS NULL
            OR heartbeat_at < clock_timestamp() - make_interval(secs => {lease_seconds})))
""").format(lease_seconds=settings.LEASE_SECONDS)


def conninfo_of(source_id: int) -> str:
    """Return the source's connection string, with its password. Raises ``SourceProblem``."""
    try:
        with orm_connection():
            return full_conninfo(Source.objects.get(pk=source_id))
    except UNUSABLE as error:
        remedy = "Remove the source and add it again with a DSN that works"
        raise SourceProblem("bad_dsn", str(error), remedy) from None


@shared_task(name="replview.receive", bind=True, ignore_result=True)
def receive_slot(self: Any, slot_id: int) -> None:
    """Receive one slot until the worker stops, the slot is stopped, or another worker takes it."""
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
    """Requests that the publications of a slot's source be read again, at most once a second.

    A stream may announce hundreds of tables at once. Sampling finds what no request was sent for.
    """

    def __init__(self) -> None:
        self._asked_at = float("-inf")

    def ask(self, slot_id: int) -> None:
        """Request that publications be read; the request expires if no worker is free for it."""
        if time.monotonic() - self._asked_at < _LOOK_SECONDS:
            return
        self._asked_at = time.monotonic()
        with suppress(OperationalError):  # without the broker, sampling goes on
            current_app.send_task(
                LOOK_AT_PUBLICATIONS_OF, [slot_id], expires=_LOOK_EXPIRES_SECONDS, retry=False
            )


class SlotStop(threading.Event):
    """An event that is set when its slot must stop, or when the whole worker stops."""

    def __init__(self, worker: threading.Event) -> None:
        super().__init__()
        self._worker = worker

    def is_set(self) -> bool:
        """Return whether the slot or the worker must stop."""
        return super().is_set() or self._worker.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event, ``timeout`` seconds at most; return whether it is set."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            remaining = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
            if remaining <= 0:
                return False
            super().wait(remaining)
        return True


def choose_worker(workers: list[str], load: Counter[str], *, former: str) -> str:
    """Return the worker with the fewest slots, at random among equals, and avoid ``former``.

    ``former`` held the slot's lease until it ran out. It may still answer pings although it cannot
    reach the store, and a slot offered to it again and again would never be received.
    """
    others = [name for name in workers if name != former] or workers
    return min(others, key=lambda name: (load[name], random.random()))


def propose_receivers() -> None:
    """Offer each slot that should run and has no live lease to the worker with the fewest slots."""
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
            # Send to the worker's own queue: from the shared one any worker may fetch it.
            worker = choose_worker(workers, load, former=former)
            load[worker] += 1
            queue = worker_direct(worker)
        receive_slot.apply_async([slot_id], queue=queue, expires=settings.LEASE_SECONDS)


chore(propose_receivers, PROPOSE_RECEIVERS, when=_ANY_UNREAD)
