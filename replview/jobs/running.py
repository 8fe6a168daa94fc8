"""One queue: whatever runs in the background on request, in threads of a worker of its own.

Celery carries the call, the store the truth. Whoever asks for a job writes its row and announces
it: a worker begins at once. Where a message was lost, a worker was killed or there was no room, one
task finds what waits, of all kinds, every few seconds (``sweep``).

A kind says what it does, and what becomes of a job whose worker was lost (``recover``): it is begun
again, gone on with, taken back, or it failed.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Generic, TypeVar

from celery import Celery, shared_task
from celery.signals import worker_shutting_down
from django.db import connection, transaction
from kombu.exceptions import OperationalError

from replview.store.connecting import lasting_connection, orm_connection

log = logging.getLogger(__name__)

#: Set once, when this worker is told to stop. With a pool of threads a task learns of SIGTERM here
#: alone: what runs ends with its last position stored, or gives back what it had claimed.
stopping = threading.Event()
#: An announcement that nobody has read by then is of no use: the sweep has been.
_EXPIRES_SECONDS = 15.0
#: A job may fail at once, and be given back: the next is not begun faster than that.
PAUSE_SECONDS = 0.5

Claimed = TypeVar("Claimed")
_kinds: list["Kind[Any]"] = []
#: Threads of their own, since they keep their connections: Celery closes those of its threads.
_chore_threads = ThreadPoolExecutor(4, thread_name_prefix="chores")


class Kind(Generic[Claimed]):
    """One kind of job, and the jobs of it that this process runs."""

    def __init__(
        self,
        *,
        name: str,
        task: str,
        waits: Callable[[], bool],
        claim: Callable[[], Claimed | None],
        run: Callable[[Claimed, threading.Event], object],
        recover: Callable[[], object] = lambda: None,
        at_once: int = 1,
        again: bool = True,
        abandoned: bool = False,
        private: bool = False,
    ) -> None:
        """``task`` is the Celery task that begins what waits; ``name`` names the threads.

        ``waits`` tells cheaply whether there is anything to do or to recover; ``claim`` gives one
        job that is this process's own from then on. ``run`` gets the event that tells it to stop.
        ``again``: once a job is over, another may be claimed for the same room. ``abandoned``:
        a worker that stops does not wait for it. ``private``: what its errors say may hold values.
        """
        self.name, self.task = name, task
        self._waits, self._claim, self._run, self._recover = waits, claim, run, recover
        self._again, self._abandoned, self._private = again, abandoned, private
        self._free = threading.BoundedSemaphore(at_once)

    def serve(self) -> None:
        """Begin jobs that wait, as far as there is room, and recover those of lost workers."""
        with orm_connection():
            self.begin()

    def begin(self) -> None:
        """Begin jobs that wait, on the current connection."""
        if not self._waits():
            return
        self._recover()
        while not stopping.is_set() and self._free.acquire(blocking=False):
            claimed = None
            try:
                claimed = self._claim()
                if claimed is None:
                    return
                threading.Thread(
                    target=self._work, args=[claimed], name=self.name, daemon=self._abandoned
                ).start()
            finally:
                if claimed is None:
                    self._free.release()

    def _work(self, claimed: Claimed) -> None:
        """In a thread: do it, then begin what waited for room."""
        try:
            with orm_connection():
                self._run(claimed, stopping)
        except Exception as error:
            # The store is away: the job's heartbeat grows old, and another worker has it.
            self._log(error, "left to another worker")
        finally:
            self._free.release()
        if self._again and not stopping.wait(PAUSE_SECONDS):
            try:
                self.serve()
            except Exception as error:
                self._log(error, "the next is left to the sweep")

    def _log(self, error: Exception, what: str) -> None:
        if self._private:
            log.error("%s: %s (%s)", self.name, what, type(error).__name__)
        else:
            log.error("%s: %s", self.name, what, exc_info=error)


def register(kind: Kind[Claimed]) -> Kind[Claimed]:
    """Register a kind of job, which its task and the sweep then serve."""
    _kinds.append(kind)
    shared_task(name=kind.task, ignore_result=True)(kind.serve)
    return kind


@shared_task(name="replview.sweep_jobs", ignore_result=True)
def sweep() -> None:
    """Find, of all kinds, the jobs that were not announced or whose worker is lost."""
    with orm_connection():
        for kind in _kinds:
            try:
                kind.begin()
            except Exception:
                log.exception("%s: not looked after", kind.name)


Chore = Callable[[], object]
#: Each with the SQL of a condition without which there is nothing to do.
_chores: list[tuple[Chore, str]] = []


def task(name: str) -> Callable[[Chore], Chore]:
    """Make the function a Celery task of this name, with its own connection to the store."""

    def made(do: Chore) -> Chore:
        def run() -> None:
            with orm_connection():
                do()

        shared_task(name=name, ignore_result=True)(run)
        return do

    return made


def chore(do: Chore, name: str, *, when: str = "true") -> None:
    """Make the function a task of this name that also runs every five seconds, one chore after
    the other, on one connection. ``when``, an SQL condition, tells more cheaply than the chore
    whether there is anything to do.
    """
    _chores.append((task(name)(do), when))


@shared_task(name="replview.do_chores", ignore_result=True)
def do_chores() -> None:
    """Do all chores once; one that fails is tried again the next time."""
    _chore_threads.submit(_do_chores).result()


def _do_chores() -> None:
    with lasting_connection():
        for do, when in _chores:
            try:
                with connection.cursor() as cursor:
                    wanted = when == "true" or cursor.execute(f"SELECT {when}").fetchone()[0]
                if wanted:
                    do()
            except Exception:
                log.exception("%s failed", getattr(do, "__qualname__", do))


def announce(task: str) -> None:
    """Have a worker run this task now, or once the current transaction is committed."""
    transaction.on_commit(partial(_send, task), robust=True)


def _send(task: str) -> None:
    try:
        _sender().send_task(task, expires=_EXPIRES_SECONDS, ignore_result=True, retry=False)
    except (OperationalError, OSError) as error:
        log.info("%s is left to the sweep: Redis is away (%s)", task, type(error).__name__)


@cache
def _sender() -> Celery:
    """An application that sends and waits for nobody: pages and commands have no other."""
    app = Celery("replview-announcing", set_as_current=False)
    app.config_from_object("replview.runtime.celery_settings")
    impatient = {"max_retries": 0, "socket_connect_timeout": 2.0, "socket_timeout": 5.0}
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, **impatient}
    return app


@worker_shutting_down.connect
def _stop(**_: object) -> None:
    stopping.set()
