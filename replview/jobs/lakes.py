"""A run of a lake is requested by a page, a command, a schedule or an erasure, one at a time.

A lost worker's run is repeated by another one; a run that a killed command carried out fails.
"""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from replview.jobs.following import end_leftover
from replview.jobs.rows import JobRows
from replview.store.models import Lake, LakeRun

rows = JobRows(
    LakeRun,
    task="replview.serve_lake_runs",
    lost_seconds=20.0,
    most_attempts=3,
    remedy="See its log, and the memory of the machine; then run it again",
    beside=("lake__slot__source",),
)

#: Runs of a lake whose jobs may have been left running.
_LAST_RUNS = 3


class LakeBusy(Exception):
    """Another run of the lake has not ended."""

    def __init__(self, lake: Lake, run: LakeRun | None) -> None:
        state = f"run {run.pk} ({run.action}) is {run.state}" if run else "a run ended just now"
        super().__init__(f"lake {lake} is busy: {state}")


def unended(lake: Lake) -> LakeRun | None:
    """Return the lake's run that has not ended."""
    # A killed command may hold the lake, and there may be no worker to notice it.
    _fail_lost_commands()
    return rows.rows(rows.unended, lake=lake).first()


def request(
    lake: Lake, action: str, *, by: str, how: str, words: Mapping[str, Any] | None = None
) -> LakeRun:
    """Store a new run, which a worker begins at once; for a command it is also claimed.

    Raises ``LakeBusy``.
    """
    if run := unended(lake):
        raise LakeBusy(lake, run)
    row = LakeRun(lake=lake, action=action, requested_by=by, requested_how=how, anywhere=True,
                  words=dict(words or {}))  # fmt: skip
    try:
        with transaction.atomic():
            row.save()
            if how == LakeRun.How.COMMAND:
                return rows.claim(Q(pk=row.pk)) or row
            rows.announce()
    except IntegrityError:
        # Of two simultaneous requests the store refuses one.
        raise LakeBusy(lake, unended(lake)) from None
    return row


def end_leftovers(lake: Lake) -> None:
    """Kill the jobs that lost workers and killed commands of this machine left running.

    Two jobs that append the same changes to Iceberg would have them there twice.
    """
    for run in lake.runs.exclude(job_pid=None)[:_LAST_RUNS]:
        end_leftover(run, f"--root={lake.root}\0")


def recover() -> None:
    """Give back the runs of lost workers, and end those of killed commands."""
    _fail_lost_commands()
    rows.give_back_lost()


def _fail_lost_commands() -> None:
    lost = rows.rows(rows.lost, requested_how=LakeRun.How.COMMAND)
    rows.leave(
        lost, "FAILED", finished_at=Now(), problem_cause="its command was killed",
        problem_remedy="Run it again: it continues from the lake's last commit",
    )  # fmt: skip
