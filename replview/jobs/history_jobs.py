"""History jobs: asked for by a page, run by one worker at a time.

The states and the claim are those of exports (``jobs.exports``). A job writes nothing that another
goes on with: what a lost worker began is begun anew.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from replview.jobs.running import announce
from replview.store.models import HistoryJob

TASK = "replview.serve_history_jobs"
#: A worker that gave no sign of life for this long is gone.
LOST_SECONDS = 20.0
#: Begun so often and never ended: it takes its workers along, and is given up.
MOST_ATTEMPTS = 3
WAITING = (HistoryJob.State.WAITING, HistoryJob.State.RUNNING)

_GIVE_UP = """
    UPDATE history_job SET state = 'failed', finished_at = clock_timestamp(),
           problem_cause = 'its worker was lost ' || attempts || ' times before it ended',
           problem_remedy = 'See its log, and the memory of the machine; then run it again'
    WHERE state = 'running' AND attempts >= %(most)s
      AND heartbeat_at < clock_timestamp() - make_interval(secs => %(lost)s)
"""
_GIVE_BACK_LOST = """
    UPDATE history_job SET state = 'waiting'
    WHERE state = 'running'
      AND heartbeat_at < clock_timestamp() - make_interval(secs => %(lost)s)
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run one job, until somebody takes it away."""

    job_id: int
    #: Tells this worker from any other that had the job before or gets it after.
    started_at: dt.datetime


def request(
    job: str, root: str, words: Mapping[str, Any], *, by: str, anywhere: bool
) -> HistoryJob:
    """Record a request; a worker begins at once, one job after the other."""
    made = HistoryJob.objects.create(
        job=job, root=root, words=dict(words), requested_by=by, anywhere=anywhere
    )
    announce(TASK)
    return made


def anything_waits() -> bool:
    """Whether some job is neither done nor given up: one look at a partial index."""
    return HistoryJob.objects.filter(state__in=WAITING).exists()


def claim() -> Claim | None:
    """The oldest that waits, now ours; None where there is none."""
    waiting = HistoryJob.objects.filter(state=HistoryJob.State.WAITING).order_by("pk")
    with transaction.atomic():
        row = waiting.select_for_update(skip_locked=True).only("pk").first()
        if row is None:
            return None
        HistoryJob.objects.filter(pk=row.pk).update(
            state=HistoryJob.State.RUNNING,
            started_at=Now(),
            heartbeat_at=Now(),
            attempts=F("attempts") + 1,
        )
        row.refresh_from_db(fields=["started_at"])
    assert row.started_at is not None
    return Claim(row.pk, row.started_at)


def give_back_lost() -> None:
    """Have the jobs begun anew whose worker is gone, unless they take every worker along."""
    with connection.cursor() as cursor:
        for sql in (_GIVE_UP, _GIVE_BACK_LOST):
            cursor.execute(sql, {"most": MOST_ATTEMPTS, "lost": LOST_SECONDS})


def beat(claim: Claim, **facts: Any) -> bool:
    """A sign of life, and what is known now; False where it was cancelled or taken away."""
    return _tell(claim, **facts)


def finish(claim: Claim, result: Mapping[str, Any]) -> bool:
    """Keep what came of it."""
    return _tell(claim, state=HistoryJob.State.DONE, finished_at=Now(), result=dict(result))


def fail(claim: Claim, cause: str, remedy: str) -> bool:
    """Keep why nothing did."""
    return _tell(
        claim,
        state=HistoryJob.State.FAILED,
        finished_at=Now(),
        problem_cause=cause,
        problem_remedy=remedy,
    )


def give_back(claim: Claim) -> bool:
    """Our worker stops: another begins anew. It was not the job's fault."""
    return _tell(claim, state=HistoryJob.State.WAITING, attempts=F("attempts") - 1)


def cancel(job_id: int) -> bool:
    """Give it up, begun or not; False where it has ended."""
    wanted = HistoryJob.objects.filter(pk=job_id, state__in=WAITING)
    return wanted.update(state=HistoryJob.State.CANCELLED, finished_at=Now()) == 1


def is_cancelled(job_id: int) -> bool:
    """Whether nobody wants it any more."""
    return HistoryJob.objects.filter(pk=job_id, state=HistoryJob.State.CANCELLED).exists()


def _tell(claim: Claim, **values: Any) -> bool:
    mine = HistoryJob.objects.filter(
        pk=claim.job_id, state=HistoryJob.State.RUNNING, started_at=claim.started_at
    )
    # The store's clock, not the worker's: they are compared with one another.
    return mine.update(heartbeat_at=Now(), **values) == 1
