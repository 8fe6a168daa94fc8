"""Exports: asked for by a page, a program or a command, done by one worker at a time.

The states are ``waiting`` → ``running`` → ``done``, ``failed`` or ``cancelled``. Whoever claims a
row is alone with it: all it tells begins with an UPDATE of the row ``WHERE started_at = mine``, and
0 rows means stop. What a lost worker began another goes on with: finished files are kept.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from replview.jobs.running import announce
from replview.store.models import Export, Slot

TASK = "replview.serve_exports"
#: A worker that gave no sign of life for this long is gone.
LOST_SECONDS = 20.0
#: Begun so often and never ended: it takes its workers along, and is given up.
MOST_ATTEMPTS = 5
WAITING = (Export.State.WAITING, Export.State.RUNNING)

_BEGIN = """
    UPDATE export SET state = 'running', started_at = clock_timestamp(),
           heartbeat_at = clock_timestamp(), attempts = attempts + 1, seconds_left = NULL
    WHERE id = (SELECT id FROM export WHERE state = 'waiting'
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id
"""
# A command's folder may be on a machine where no worker is: it is not gone on with.
_GIVE_BACK_LOST = """
    UPDATE export SET state = 'waiting'
    WHERE state = 'running' AND attempts < %(most)s AND requested_how <> 'command'
      AND heartbeat_at < clock_timestamp() - make_interval(secs => %(lost)s)
"""
_GIVE_UP = """
    UPDATE export SET state = 'failed', finished_at = clock_timestamp(),
           problem_cause = CASE WHEN requested_how = 'command' THEN 'the command is gone'
                ELSE 'its worker was lost ' || attempts || ' times before it ended' END,
           problem_remedy = CASE WHEN requested_how = 'command'
                THEN 'Run it again: files that are whole are kept'
                ELSE 'See its log, and the memory of the machine; then export again' END
    WHERE state = 'running' AND (attempts >= %(most)s OR requested_how = 'command')
      AND heartbeat_at < clock_timestamp() - make_interval(secs => %(lost)s)
"""


_NOW = {"started_at": Now(), "heartbeat_at": Now()}


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to do one export, until somebody takes it away."""

    export_id: int
    #: Tells this worker from any other that had the export before or gets it after.
    started_at: dt.datetime


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


def anything_waits() -> bool:
    """Whether some export is neither done nor given up: one look at a partial index."""
    return Export.objects.filter(state__in=WAITING).exists()


def claim() -> Claim | None:
    """The oldest that waits, now ours; None where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN)
        row = cursor.fetchone()
    return None if row is None else claim_of(row[0])


def claim_of(export_id: int) -> Claim:
    """The claim of whoever has begun it last."""
    found = Export.objects.get(pk=export_id)
    assert found.started_at is not None
    return Claim(found.pk, found.started_at)


def give_back_lost() -> None:
    """Have the exports gone on with whose worker is gone, unless they take every worker along."""
    with connection.cursor() as cursor:
        for sql in (_GIVE_UP, _GIVE_BACK_LOST):
            cursor.execute(sql, {"most": MOST_ATTEMPTS, "lost": LOST_SECONDS})


def began(claim: Claim, *, worker: str, pid: int, log_path: str) -> bool:
    """Note the job's process; False where the export was taken away."""
    return _tell(claim, worker=worker, job_pid=pid, log_path=log_path)


def beat(claim: Claim, **progress: Any) -> bool:
    """A sign of life, and how far it is; False where it was cancelled or taken away."""
    return _tell(claim, **progress)


def finish(claim: Claim, result: Mapping[str, Any], **progress: Any) -> bool:
    """Keep what was written."""
    return _end(claim, Export.State.DONE, result=dict(result), seconds_left=0.0, **progress)


def fail(claim: Claim, cause: str, remedy: str) -> bool:
    """Keep why there is none."""
    return _end(claim, Export.State.FAILED, problem_cause=cause, problem_remedy=remedy)


def give_back(claim: Claim) -> bool:
    """Our worker stops: another goes on. It was not the export's fault."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE export SET state = 'waiting', attempts = attempts - 1"
            " WHERE id = %s AND state = 'running' AND started_at = %s",
            [claim.export_id, claim.started_at],
        )
        return bool(cursor.rowcount == 1)


def cancel(export_id: int) -> bool:
    """Give it up, begun or not; False where it has ended."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE export SET state = 'cancelled', finished_at = clock_timestamp()"
            " WHERE id = %s AND state IN ('waiting', 'running')",
            [export_id],
        )
        return bool(cursor.rowcount == 1)


def is_cancelled(export_id: int) -> bool:
    """Whether nobody wants it any more."""
    return Export.objects.filter(pk=export_id, state=Export.State.CANCELLED).exists()


def _end(claim: Claim, state: Export.State, **values: Any) -> bool:
    return _tell(claim, state=state, finished=True, **values)


def _tell(claim: Claim, *, finished: bool = False, **values: Any) -> bool:
    mine = Export.objects.filter(
        pk=claim.export_id, state=Export.State.RUNNING, started_at=claim.started_at
    )
    # The store's clock, not the worker's: they are compared with one another.
    ends = {"finished_at": Now()} if finished else {}
    return mine.update(heartbeat_at=Now(), **ends, **values) == 1
