"""Erasures: looked at, confirmed, then carried out by one worker (or command) at a time.

The states are ``looking`` → ``looked`` → ``waiting`` → ``running`` → ``done``, or ``unfinished``
where something could not be reached: tried again until it is, or until somebody leaves that out. A
look that nobody confirms within an hour is ``dropped``. As long as an act is not over its keys
stand sealed in its row; then they are forgotten, and a keyed digest of each stays.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from replview.features.erasure.request import ErasureRequest, digest
from replview.jobs.rows import Claim
from replview.jobs.running import announce
from replview.store.models import Erasure, Relation, Slot
from replview.store.secrets import seal, unseal
from replview.store.write.access_record import Action, note

TASK = "replview.serve_erasures"
#: A worker that gave no sign of life for this long is gone.
LOST_SECONDS = 60.0
#: A look holds for so long: what it found grows old, and the keys are not to be kept.
LOOK_HOLDS_SECONDS = 3600.0
TRY_AGAIN = dt.timedelta(minutes=10)

_CLAIM = """
    UPDATE erasure SET started_at = clock_timestamp(), heartbeat_at = clock_timestamp(),
           attempts = attempts + 1,
           state = CASE state WHEN 'looking' THEN 'looking' ELSE 'running' END
    WHERE id = (SELECT id FROM erasure WHERE (%(only)s::bigint IS NULL OR id = %(only)s)
                  AND (state = 'waiting'
                       OR (state = 'unfinished' AND (next_try_at <= clock_timestamp()
                                                     OR %(only)s::bigint IS NOT NULL))
                       OR (state IN ('looking', 'running')
                           AND (heartbeat_at IS NULL OR heartbeat_at
                                < clock_timestamp() - make_interval(secs => %(lost)s))))
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id
"""
_FORGET = """
    UPDATE erasure SET state = 'dropped', sealed_plan = '', finished_at = clock_timestamp(),
           problem_cause = 'nobody confirmed it within an hour'
    WHERE state = 'looked' AND heartbeat_at < clock_timestamp() - make_interval(secs => %(holds)s)
"""


def request(erasure_request: ErasureRequest, *, by: str, how: str) -> Erasure:
    """Record it, to be looked at first: nothing is changed yet."""
    digests = [digest(name, key) for name, key in erasure_request.pairs]
    if erasure_request.actor:
        digests.append(digest("", {"actor": erasure_request.actor}))
    plan = {
        "pairs": [[name, key] for name, key in erasure_request.pairs],
        "columns": list(erasure_request.columns),
        "actor": erasure_request.actor,
        "spans": {},
    }
    made = Erasure.objects.create(
        slot=erasure_request.slot,
        slot_name=str(erasure_request.slot),
        tables=erasure_request.tables,
        keys=len(erasure_request.pairs),
        columns=list(erasure_request.columns),
        digests=digests,
        names_actor=bool(erasure_request.actor),
        reason=erasure_request.reason,
        requested_by=by,
        requested_how=how,
        sealed_plan=seal(orjson.dumps(plan).decode()),
    )
    announce(TASK)
    return made


def plan_of(row: Erasure) -> dict[str, Any]:
    """Keys and spans. Raises ``SecretKeyChanged``."""
    told: dict[str, Any] = orjson.loads(unseal(row.sealed_plan))
    return told


def keep_plan(claim: Claim, plan: Mapping[str, Any]) -> bool:
    """Sealed; False where another has the act."""
    return beat(claim, sealed_plan=seal(orjson.dumps(plan).decode()))


def word_of(row: Erasure) -> str:
    """What is typed to confirm it."""
    return f"erase {row.found.get('changes', 0)}"


def confirm(row: Erasure, *, by: str) -> bool:
    """Have it done; False: it was not looked at, or is confirmed already."""
    looked = Erasure.objects.filter(pk=row.pk, state=Erasure.State.LOOKED)
    confirmed = looked.update(
        state=Erasure.State.WAITING, confirmed_by=by, confirmed_at=Now(), problem_cause="",
        problem_remedy="",
    )  # fmt: skip
    announce(TASK)
    return confirmed == 1


def drop(row: Erasure) -> bool:
    """Give up what was not confirmed."""
    waiting = Erasure.objects.filter(
        pk=row.pk, state__in=[Erasure.State.LOOKING, Erasure.State.LOOKED]
    )
    return waiting.update(state=Erasure.State.DROPPED, sealed_plan="", finished_at=Now()) == 1


def leave_out(row: Erasure, root: str, *, by: str) -> bool:
    """End the wait for a root that will never be reached; that it was left out stays recorded."""
    roots = [dict(each) for each in row.roots]
    for each in roots:
        if each["root"] == root and not each.get("done"):
            each["left_out_by"] = by
    unfinished = Erasure.objects.filter(pk=row.pk, state=Erasure.State.UNFINISHED)
    if roots == row.roots or unfinished.update(roots=roots, next_try_at=Now()) != 1:
        return False
    note(Action.ERASED, subject=f"erasure {row.pk}", details={"left out": root})
    announce(TASK)
    return True


def try_again(row: Erasure) -> bool:
    """Now rather than in a while."""
    unfinished = Erasure.objects.filter(pk=row.pk, state=Erasure.State.UNFINISHED)
    wanted = unfinished.update(next_try_at=Now())
    announce(TASK)
    return wanted == 1


def anything_waits() -> bool:
    """One look at a partial index."""
    states = [Erasure.State.LOOKING, Erasure.State.WAITING, Erasure.State.RUNNING,
              Erasure.State.UNFINISHED]  # fmt: skip
    return Erasure.objects.filter(state__in=states).exists()


def claim(only: int | None = None) -> Claim | None:
    """The oldest that is due, or the named one, now ours."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"only": only, "lost": LOST_SECONDS})
        row = cursor.fetchone()
    if row is None:
        return None
    found = Erasure.objects.get(pk=row[0])
    assert found.started_at is not None
    return Claim(found.pk, found.started_at)


def forget_unconfirmed() -> None:
    """Looks that nobody acted on, and their keys."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, {"holds": LOOK_HOLDS_SECONDS})


def beat(claim: Claim, **values: Any) -> bool:
    """A sign of life, and how far it is; False where another has it."""
    mine = Erasure.objects.filter(pk=claim.job_id, started_at=claim.started_at)
    return mine.update(heartbeat_at=Now(), **values) == 1


def looked(claim: Claim, **values: Any) -> bool:
    """What it would touch is known."""
    return beat(claim, state=Erasure.State.LOOKED, step="", **values)


def finish(claim: Claim, **values: Any) -> bool:
    """All is erased: the keys are forgotten."""
    return beat(
        claim, state=Erasure.State.DONE, sealed_plan="", step="", problem_cause="",
        problem_remedy="", finished_at=Now(), next_try_at=None, **values,
    )  # fmt: skip


def stay_unfinished(claim: Claim, cause: str, remedy: str, **values: Any) -> bool:
    """Something is left; it is tried again."""
    return beat(
        claim, state=Erasure.State.UNFINISHED, step="", problem_cause=cause,
        problem_remedy=remedy, next_try_at=timezone.now() + TRY_AGAIN, **values,
    )  # fmt: skip


def refuse(claim: Claim, cause: str, remedy: str) -> bool:
    """A look that could not be done: nothing was changed."""
    return beat(
        claim, state=Erasure.State.DROPPED, sealed_plan="", step="", problem_cause=cause,
        problem_remedy=remedy, finished_at=Now(),
    )  # fmt: skip


def others_recording(slot: Slot, tables: Sequence[str]) -> list[str]:
    """Other slots of the same server that recorded these tables, too: acts of their own."""
    relations = Relation.objects.filter(slot__source=slot.source_id).exclude(slot=slot)
    named = [r for r in relations.select_related("slot__source") if str(r) in tables]
    return sorted({str(relation.slot) for relation in named})
