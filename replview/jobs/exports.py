"""Exports: asked for by a page, a program or a command, done by one worker at a time.

What a lost worker began another goes on with: finished files are kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from replview.jobs.rows import WAITING, Claim, JobRows
from replview.jobs.running import announce
from replview.store.models import Export, Slot

TASK = "replview.serve_exports"
#: A worker that gave no sign of life for this long is gone.
LOST_SECONDS = 20.0
#: Begun so often and never ended: it takes its workers along, and is given up.
MOST_ATTEMPTS = 5

rows = JobRows(
    Export,
    lost_seconds=LOST_SECONDS,
    most_attempts=MOST_ATTEMPTS,
    remedy="See its log, and the memory of the machine; then export again",
    at_claim={"seconds_left": None},
)
anything_waits, claim, claim_of = rows.anything_waits, rows.claim, rows.claim_of
beat, fail, give_back = rows.beat, rows.fail, rows.give_back
cancel, is_cancelled = rows.cancel, rows.is_cancelled

_NOW = {"started_at": Now(), "heartbeat_at": Now()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All that is recorded of a wish."""

    slot: Slot
    slice: Mapping[str, Any]
    words: Mapping[str, str]
    target: str
    by: str
    how: Export.How
    name: str = ""
    anywhere: bool = False
    spark: str = ""


class AlreadyRunning(Exception):
    """An export of this name is not over yet: the next would not know where to continue."""

    def __init__(self, export: Export) -> None:
        super().__init__(f"export {export.pk} named {export.name} is {export.state}")
        self.export = export


def request(asked: Asked, *, begun: bool = False) -> Export:
    """Record a request; a worker begins at once, unless it has ``begun``: then it is theirs who
    ask. Raises ``AlreadyRunning``.
    """
    with transaction.atomic():
        if asked.name:
            # Two that ask at once are asked for once.
            Slot.objects.select_for_update(of=("self",), no_key=True).get(pk=asked.slot.pk)
            named = Export.objects.filter(slot=asked.slot, name=asked.name, state__in=WAITING)
            if (waiting := named.first()) is not None:
                raise AlreadyRunning(waiting)
        export = Export.objects.create(
            slot=asked.slot,
            slot_name=str(asked.slot),
            name=asked.name,
            slice=dict(asked.slice),
            words=dict(asked.words),
            target=asked.target,
            anywhere=asked.anywhere,
            spark=asked.spark,
            requested_by=asked.by,
            requested_how=asked.how,
            **({"state": Export.State.RUNNING, "attempts": 1, **_NOW} if begun else {}),
        )
        announce(TASK)
    return export


def last_done(slot: Slot, name: str) -> Export | None:
    """Where *since last* goes on."""
    return Export.objects.filter(slot=slot, name=name, state=Export.State.DONE).first()


def give_back_lost() -> None:
    """Have the exports gone on with whose worker is gone, unless they take every worker along."""
    # A command's folder may be on a machine where no worker is: it is not gone on with.
    rows.lost().filter(requested_how=Export.How.COMMAND).update(
        state=Export.State.FAILED,
        finished_at=Now(),
        problem_cause="the command is gone",
        problem_remedy="Run it again: files that are whole are kept",
    )
    rows.give_back_lost()


def began(claim: Claim, *, worker: str, pid: int, log_path: str) -> bool:
    """Note the job's process; False where the export was taken away."""
    return beat(claim, worker=worker, job_pid=pid, log_path=log_path)


def finish(claim: Claim, result: Mapping[str, Any], **progress: Any) -> bool:
    """Keep what was written."""
    return rows.finish(claim, result, seconds_left=0.0, **progress)
