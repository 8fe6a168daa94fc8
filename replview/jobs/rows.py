"""The states of any job: requested → waiting → running → done, failed or cancelled.

A worker that claims a row has it alone. The claimed row is the claim: each write of the worker
begins with an UPDATE of the row ``WHERE started_at`` equals the claim's, and 0 rows means stop. A
stopping worker gives the row back; each kind decides about the jobs of a lost worker.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.db import DatabaseError, connection, transaction
from django.db.models import F, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Now

from replview.jobs.running import JobKind, announce, register
from replview.runtime.failpoints import Point, failpoint
from replview.store.connecting import orm_connection
from replview.store.models.jobs import Job

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Job)


class JobRows(Generic[J]):
    """The rows of one kind of job: claim them, keep them by heartbeats, end or give them back."""

    def __init__(
        self,
        model: type[J],
        *,
        task: str,
        lost_seconds: float,
        most_attempts: int | None = None,
        remedy: str = "",
        beside: tuple[str, ...] = (),
        at_claim: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe the kind of job.

        ``task``: the Celery task that begins waiting jobs. ``lost_seconds``: a worker without a
        heartbeat for so long is lost. ``most_attempts``: a job whose worker was lost so often
        fails with this ``remedy``. ``beside``: relations loaded with a claimed row. ``at_claim``:
        columns set by a claim.
        """
        self.task, self.lost_seconds = task, lost_seconds
        self._model, self._beside, self._at_claim = model, beside, dict(at_claim or {})
        self._most_attempts, self._remedy = most_attempts, remedy
        state = model.State
        self.waiting, self.running = Q(state=state["WAITING"]), Q(state=state["RUNNING"])
        #: Waiting or running, as in the table's partial index.
        self.unended = self.waiting | self.running
        #: Without a heartbeat for too long, by the store's clock.
        self.lost = self.running & Q(heartbeat_at__lt=Now() - dt.timedelta(seconds=lost_seconds))
        #: Held by a worker whose claim is valid.
        self.held = self.running

    def served(
        self,
        *,
        name: str,
        run: Callable[[J, threading.Event], object],
        claim: Callable[[], J | None] | None = None,
        recover: Callable[[], object] | None = None,
        at_once: int = 1,
        abandoned: bool = False,
        private: bool = False,
    ) -> JobKind[J]:
        """Register the kind with the arguments of ``JobKind``, so that workers do its jobs.

        Without ``recover`` the jobs of a lost worker are given back.
        """
        return register(
            JobKind(
                name=name,
                task=self.task,
                # This is a single look at a partial index.
                waits=lambda: self.rows(self.unended).exists(),
                claim=claim or self.claim,
                run=run,
                recover=recover or self.give_back_lost,
                at_once=at_once,
                abandoned=abandoned,
                private=private,
            )
        )

    def rows(self, *conditions: Q, **values: object) -> "QuerySet[J]":
        """Return the rows that meet these conditions, of all sources, visible or not."""
        return self._model._base_manager.filter(*conditions, **values)

    def announce(self) -> None:
        """Make a worker begin waiting jobs, once the current transaction is committed."""
        announce(self.task)

    def claim(self, among: Q | None = None, **columns: Any) -> J | None:
        """Claim the oldest waiting job, or the oldest ``among`` these; None where there is none."""
        jobs = self.rows(self.waiting if among is None else among).order_by("pk")
        with transaction.atomic():
            row = jobs.select_for_update(skip_locked=True, of=("self",)).only("pk").first()
            if row is None:
                return None
            self.rows(pk=row.pk).update(
                **{"state": self._model.State["RUNNING"], **self._at_claim, **columns},
                started_at=Now(),
                heartbeat_at=Now(),
                attempts=F("attempts") + 1,
            )
            failpoint(Point.IN_CLAIM)
            return self.rows().select_related(*self._beside).get(pk=row.pk)

    def mine(self, claim: J) -> "QuerySet[J]":
        """Return a query for the claimed row, which is empty once the claim is lost."""
        return self.rows(self.held, pk=claim.pk, started_at=claim.started_at)

    def beat(self, claim: J, /, **columns: Any) -> bool:
        """Update the heartbeat and these columns; False where the claim is lost."""
        # Use the store's clock for every heartbeat, because they are compared with it.
        return self.mine(claim).update(heartbeat_at=Now(), **columns) == 1

    def leave(self, rows: "QuerySet[J]", state: str, /, **columns: Any) -> int:
        """Move these jobs from their workers to ``state``; return their number."""
        return rows.update(state=self._model.State[state], **columns)

    def end(self, claim: J, state: str, /, **columns: Any) -> bool:
        """End the claimed job; False where the claim is lost."""
        return self.leave(self.mine(claim), state, finished_at=Now(), **columns) == 1

    def finish(self, claim: J, /, **columns: Any) -> bool:
        """End the claimed job as done; False where the claim is lost."""
        return self.end(claim, "DONE", **columns)

    def fail(self, claim: J, cause: str, remedy: str, /, **columns: Any) -> bool:
        """End the claimed job as failed; False where the claim is lost."""
        return self.end(claim, "FAILED", problem_cause=cause, problem_remedy=remedy, **columns)

    def give_back(self, claim: J) -> bool:
        """Give the claimed job back for another worker, because this one stops."""
        return self.leave(self.mine(claim), "WAITING", attempts=F("attempts") - 1) == 1

    def give_back_lost(self) -> None:
        """Give back the jobs of lost workers; a job that was started too often fails instead."""
        if self._most_attempts is not None:
            text = TextField()
            cause = Concat(
                Value("its worker was lost ", text),
                Cast("attempts", text),
                Value(" times before it ended", text),
            )
            too_often = self.rows(self.lost, attempts__gte=self._most_attempts)
            self.leave(
                too_often, "FAILED", finished_at=Now(), problem_cause=cause,
                problem_remedy=self._remedy,
            )  # fmt: skip
        self.leave(self.rows(self.lost), "WAITING")

    def cancel(self, job_id: int) -> bool:
        """Cancel a waiting or running job; False where it has ended."""
        return self.leave(self.rows(self.unended, pk=job_id), "CANCELLED", finished_at=Now()) == 1

    def is_cancelled(self, claim: J) -> bool:
        """Return whether the claimed job was cancelled."""
        return self.rows(pk=claim.pk, state=self._model.State["CANCELLED"]).exists()


@contextmanager
def beating(beat: Callable[[], object], seconds: float) -> Iterator[None]:
    """Send heartbeats from a thread until the block ends, because one step may take long."""
    over = threading.Event()

    def work() -> None:
        with orm_connection():
            while not over.wait(seconds):
                try:
                    beat()
                except DatabaseError as error:
                    # The store is away for a moment: the next heartbeat will do.
                    log.warning("no heartbeat (%s)", type(error).__name__)
                    connection.close()

    thread = threading.Thread(target=work, name="beating", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
