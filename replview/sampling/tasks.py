"""Celery's tasks: sample every source, tidy the store. Beat runs them every 5 and 30 seconds."""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

from celery import shared_task

from replview.sampling.publications import look_at_publications
from replview.sampling.sample import sample_source
from replview.store import activity, peeks, tidy
from replview.store.connecting import orm_connection
from replview.store.lost_ends import give_up_lost_ends
from replview.store.models import Source

log = logging.getLogger(__name__)

#: Sources looked at side by side. Each is cut off after a few seconds, so none holds a place long.
_THREADS = 8
#: How long the task waits for its sources; slower ones end by themselves.
_WAIT_SECONDS = 4.5
#: How long one run of tidying may last: the next one goes on.
_TIDY_SECONDS = 20.0
#: And of summing up the record: a fifth of one core at most, however far behind it is.
_ROLL_SECONDS = 1.0

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sampling")
_lock = threading.Lock()
#: Sources being looked at by this process.
_busy: set[int] = set()
#: Sources whose publications are being looked at.
_looked_at: set[int] = set()


@shared_task(name="replview.sample_slots", ignore_result=True)
def sample_slots() -> None:
    """Look at all sources at once; one that has not answered the last look is left alone."""
    pending: list[Future[None]] = []
    for source in Source.objects.all():
        with _lock:
            if source.pk in _busy:
                continue
            _busy.add(source.pk)
        pending.append(_pool.submit(_sample, source))
    wait(pending, timeout=_WAIT_SECONDS)


@shared_task(name="replview.look_at_publications", ignore_result=True)
def look_at_all_publications() -> None:
    """See what every source's publications publish now, and keep what differs."""
    for source in Source.objects.all():
        with _lock:
            if source.pk in _looked_at:
                continue
            _looked_at.add(source.pk)
        _pool.submit(_look_at_publications, source)


@shared_task(name="replview.tidy_store", ignore_result=True)
def tidy_store() -> None:
    """Make partitions, delete what is no longer wanted; a bounded piece at a time."""
    with orm_connection(), tidy.alone() as mine:
        if not mine:
            return
        deadline = time.monotonic() + _TIDY_SECONDS
        tidy.make_partitions()
        tidy.sweep_discarded(deadline)
        tidy.sweep_tombstones(deadline)
        tidy.forget_ended_watches()
        tidy.remove_slots(deadline)
        peeks.delete_old()
        give_up_lost_ends()


@shared_task(name="replview.roll_activity", ignore_result=True)
def roll_activity() -> None:
    """Sum up what the receivers have stored since, a bounded piece at a time."""
    with orm_connection():
        activity.roll(time.monotonic() + _ROLL_SECONDS)


def _sample(source: Source) -> None:
    """In a thread: with a store connection of its own, closed again."""
    try:
        with orm_connection():
            sample_source(source)
    except Exception:
        log.exception("sampling source %s failed", source.name)
    finally:
        with _lock:
            _busy.discard(source.pk)


def _look_at_publications(source: Source) -> None:
    """In a thread, as ``_sample``."""
    try:
        with orm_connection():
            look_at_publications(source)
    except Exception:
        log.exception("looking at the publications of source %s failed", source.name)
    finally:
        with _lock:
            _looked_at.discard(source.pk)
