"""The row of a job: ``waiting`` → ``running`` → ``done``, ``failed`` or ``cancelled``.

Whoever claims a row is alone with it: all it says begins with an UPDATE of the row ``WHERE
started_at = mine``, and 0 rows means stop. A worker that stops gives the row back; one that was
lost has it given back, unless it was lost with this row too often.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Now

from replview.store.models import Export, HistoryJob

State = Export.State
WAITING = (State.WAITING, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to do one job, until somebody takes it away."""

    job_id: int
    #: Tells this worker from any other that had the job before or gets it after.
    started_at: dt.datetime


class JobRows:
    """All rows of one model: claimed, kept by signs of life, ended, given back."""

    def __init__(
        self,
        model: type[Export] | type[HistoryJob],
        *,
        lost_seconds: float,
        most_attempts: int,
        remedy: str,
        at_claim: Mapping[str, Any] | None = None,
    ) -> None:
        """A worker that gave no sign of life for ``lost_seconds`` is gone. A job that was begun
        ``most_attempts`` times takes its workers along: it fails with this ``remedy``.
        """
        self._model = model
        self._lost = dt.timedelta(seconds=lost_seconds)
        self._most_attempts, self._remedy = most_attempts, remedy
        self._at_claim = dict(at_claim or {})

    def _rows(self, **conditions: Any) -> "QuerySet[Any]":
        return self._model._base_manager.filter(**conditions)

    def anything_waits(self) -> bool:
        """Whether some job is neither done nor given up: one look at a partial index."""
        return self._rows(state__in=WAITING).exists()

    def claim(self) -> Claim | None:
        """The oldest that waits, now ours; None where there is none."""
        waiting = self._rows(state=State.WAITING).order_by("pk")
        with transaction.atomic():
            row = waiting.select_for_update(skip_locked=True).only("pk").first()
            if row is None:
                return None
            self._rows(pk=row.pk).update(
                state=State.RUNNING, started_at=Now(), heartbeat_at=Now(),
                attempts=F("attempts") + 1, **self._at_claim,
            )  # fmt: skip
            return self.claim_of(row.pk)

    def claim_of(self, job_id: int) -> Claim:
        """The claim of whoever has begun it last."""
        return Claim(job_id, self._rows(pk=job_id).values_list("started_at", flat=True).get())

    def lost(self) -> "QuerySet[Any]":
        """Those whose worker gave no sign of life for too long, by the store's clock."""
        return self._rows(state=State.RUNNING, heartbeat_at__lt=Now() - self._lost)

    def give_back_lost(self) -> None:
        """Have others do what a lost worker had, unless it takes every worker along."""
        text = TextField()
        cause = Concat(
            Value("its worker was lost ", text),
            Cast("attempts", text),
            Value(" times before it ended", text),
        )
        self.lost().filter(attempts__gte=self._most_attempts).update(
            state=State.FAILED,
            finished_at=Now(),
            problem_cause=cause,
            problem_remedy=self._remedy,
        )
        self.lost().update(state=State.WAITING)

    def beat(self, claim: Claim, **facts: Any) -> bool:
        """A sign of life, and what is known now; False where it was cancelled or taken away."""
        mine = self._rows(pk=claim.job_id, state=State.RUNNING, started_at=claim.started_at)
        # The store's clock, not the worker's: they are compared with one another.
        return mine.update(heartbeat_at=Now(), **facts) == 1

    def finish(self, claim: Claim, result: Mapping[str, Any], **facts: Any) -> bool:
        """Keep what came of it."""
        return self.beat(claim, state=State.DONE, finished_at=Now(), result=dict(result), **facts)

    def fail(self, claim: Claim, cause: str, remedy: str) -> bool:
        """Keep why nothing did."""
        return self.beat(
            claim, state=State.FAILED, finished_at=Now(), problem_cause=cause,
            problem_remedy=remedy,
        )  # fmt: skip

    def give_back(self, claim: Claim) -> bool:
        """Our worker stops: another goes on. It was not the job's fault."""
        return self.beat(claim, state=State.WAITING, attempts=F("attempts") - 1)

    def cancel(self, job_id: int) -> bool:
        """Give it up, begun or not; False where it has ended."""
        wanted = self._rows(pk=job_id, state__in=WAITING)
        return wanted.update(state=State.CANCELLED, finished_at=Now()) == 1

    def is_cancelled(self, job_id: int) -> bool:
        """Whether nobody wants it any more."""
        return self._rows(pk=job_id, state=State.CANCELLED).exists()
