"""Requested background jobs share one queue, and run in threads of a worker of their own.

Celery carries the call, the store the truth. A request writes the job's row and announces it, and
a worker begins at once. After a lost message, a killed worker or a lack of room, one
task finds the waiting jobs of all kinds, every few seconds (``sweep``).

Each kind defines what its jobs do, and what happens after their worker is lost (``recover``): they
begin again, continue, are undone, or fail.
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
from psycopg import sql

from replview.store.connecting import lasting_connection, orm_connection

log = logging.getLogger(__name__)

#: Set once, when this worker must stop. In a thread pool a task learns of SIGTERM only from this
#: event; it then stores its last position, or gives back its claim.
stopping = threading.Event()
#: Seconds after which an unread announcement expires, because the sweep has run by then.
_EXPIRES_SECONDS = 15.0
#: Least seconds between two jobs in one slot of room, because a job may fail at once repeatedly.
PAUSE_SECONDS = 0.5

Claimed = TypeVar("Claimed")
_kinds: list["JobKind[Any]"] = []
#: Own threads, because they keep their connections; Celery closes those of its threads.
_chore_threads = ThreadPoolExecutor(4, thread_name_prefix="chores")

Chore = Callable[[], object]

_ALWAYS = sql.SQL("true")
#: A chore, and the SQL of a condition without which it has nothing to do.
_chores: list[tuple[Chore, sql.Composable]] = []


class JobKind(Generic[Claimed]):
    """A kind of job, and its jobs that this process runs."""

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
        """Take the task that begins waiting jobs; ``name`` names the threads.

        ``waits`` returns cheaply whether there is anything to do or recover; ``claim`` returns one
        job, which this process then has alone. ``run`` gets the event that is set to stop it.
        ``again``: after a job another may be claimed for the same room. ``abandoned``:
        a stopping worker does not wait for the job. ``private``: error texts may hold values.
        """
        self.name, self.task = name, task
        self._waits, self._claim, self._run, self._recover = waits, claim, run, recover
        self._again, self._abandoned, self._private = again, abandoned, private
        self._free = threading.BoundedSemaphore(at_once)

    def serve(self) -> None:
        """Begin waiting jobs, as far as there is room, and recover those of lost workers."""
        with orm_connection():
            self.begin()

    def begin(self) -> None:
        """Begin waiting jobs on the current connection."""
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
        """Do the job in a thread, then begin a job that waited for room."""
        try:
            with orm_connection():
                self._run(claimed, stopping)
        except Exception as error:
            # The store is away. The job's heartbeat expires, and another worker takes it.
            self._log(error, "left to another worker")
        finally:
            self._free.release()
        if self._again and not stopping.wait(PAUSE_SECONDS):
            try:
                self.serve()
            except Exception as error:
                self._log(error, "the next is left to the sweep")

    def _log(self, error: Exception, consequence: str) -> None:
        if self._private:
            log.error("%s: %s (%s)", self.name, consequence, type(error).__name__)
        else:
            log.error("%s: %s", self.name, consequence, exc_info=error)


def register(kind: JobKind[Claimed]) -> JobKind[Claimed]:
    """Register a kind of job, which its task and the sweep then serve."""
    _kinds.append(kind)
    shared_task(name=kind.task, ignore_result=True)(kind.serve)
    return kind


@shared_task(name="replview.sweep_jobs", ignore_result=True)
def sweep() -> None:
    """Begin, for all kinds, the jobs that were not announced or whose worker is lost."""
    with orm_connection():
        for kind in _kinds:
            try:
                kind.begin()
            except Exception:
                log.exception("%s: not looked after", kind.name)


def task(name: str) -> Callable[[Chore], Chore]:
    """Make the function a Celery task of this name, with its own connection to the store."""

    def decorate(function: Chore) -> Chore:
        def run() -> None:
            with orm_connection():
                function()

        shared_task(name=name, ignore_result=True)(run)
        return function

    return decorate


def chore(function: Chore, name: str, *, when: sql.Composable = _ALWAYS) -> None:
    """Make the function a task of this name that also runs every five seconds.

    Chores run in turn on one connection. ``when``, an SQL condition, tests more cheaply than the
    chore whether there is anything to do.
    """
    _chores.append((task(name)(function), when))


@shared_task(name="replview.do_chores", ignore_result=True)
def do_chores() -> None:
    """Do all chores once; a failed chore is tried again the next time."""
    _chore_threads.submit(_do_chores).result()


def _do_chores() -> None:
    with lasting_connection():
        for function, condition in _chores:
            try:
                with connection.cursor() as cursor:
                    is_due = (
                        condition is _ALWAYS
                        or cursor.execute(sql.SQL("SELECT {}").format(condition)).fetchone()[0]
                    )
                if is_due:
                    function()
            except Exception:
                log.exception("%s failed", getattr(function, "__qualname__", function))


def announce(task: str) -> None:
    """Make a worker run this task now, or once the current transaction is committed."""
    transaction.on_commit(partial(_send, task), robust=True)


def _send(task: str) -> None:
    try:
        _sender().send_task(task, expires=_EXPIRES_SECONDS, ignore_result=True, retry=False)
    except (OperationalError, OSError) as error:
        log.info("%s is left to the sweep: Redis is away (%s)", task, type(error).__name__)


@cache
def _sender() -> Celery:
    """Return a Celery application that sends without waiting, for pages and commands."""
    app = Celery("replview-announcing", set_as_current=False)
    app.config_from_object("replview.runtime.celery_settings")
    impatient = {"max_retries": 0, "socket_connect_timeout": 2.0, "socket_timeout": 5.0}
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, **impatient}
    return app


@worker_shutting_down.connect
def _stop(**_: object) -> None:
    stopping.set()
