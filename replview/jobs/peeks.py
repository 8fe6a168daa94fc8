"""Looks into slots: asked for by a page, claimed by one worker, finished or failed, then kept.

The states are ``requested`` → ``running`` → ``done`` or ``failed``. Whoever claims a row is alone
with it; a row whose worker vanished fails with a sentence.
"""

import datetime as dt
from typing import Any

import orjson
from django.db import connection
from django.utils import timezone

from replview.jobs.running import announce
from replview.store.models import SlotPeek, Source

TASK = "replview.serve_peeks"
#: A look that runs for so much longer than it may was abandoned: its worker is gone.
ABANDONED_AFTER_SECONDS = 60
KEPT = dt.timedelta(days=7)
#: A larger result is stored without the changes themselves.
RESULT_LIMIT_BYTES = 16 << 20
_TOLD = "the changes themselves: together they are larger than a result may be"

_CLAIM = """
    UPDATE slot_peek SET state = 'running', started_at = clock_timestamp()
    WHERE id = (SELECT id FROM slot_peek WHERE state = 'requested'
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id
"""
_FAIL_ABANDONED = """
    UPDATE slot_peek SET state = 'failed', finished_at = clock_timestamp(),
           problem_code = 'abandoned',
           problem_cause = 'the worker that looked into the slot ended before it was done',
           problem_remedy = 'Look again'
    WHERE state = 'running'
      AND started_at < clock_timestamp() - make_interval(secs => max_seconds + %s)
"""


def request(
    source: Source,
    slot_name: str,
    *,
    options: dict[str, Any],
    max_changes: int,
    max_seconds: float,
    by: str,
) -> SlotPeek:
    """Ask for a look; a worker claims it at once."""
    peek = SlotPeek.objects.create(
        source=source,
        slot_name=slot_name,
        options=options,
        max_changes=max_changes,
        max_seconds=max_seconds,
        requested_by=by,
    )
    announce(TASK)
    return peek


def anything_waits() -> bool:
    """Whether some look is neither done nor given up: one look at a partial index."""
    return SlotPeek.objects.filter(
        state__in=[SlotPeek.State.REQUESTED, SlotPeek.State.RUNNING]
    ).exists()


def claim() -> SlotPeek | None:
    """The oldest look nobody has begun, now ours; None where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM)
        row = cursor.fetchone()
    return None if row is None else SlotPeek.objects.select_related("source").get(pk=row[0])


def finish(peek_id: int, result: dict[str, Any]) -> bool:
    """Store what was found; False where it was given up meanwhile."""
    return _end(peek_id, state=SlotPeek.State.DONE, result=_storable(result))


def fail(peek_id: int, code: str, cause: str, remedy: str) -> bool:
    """Store why nothing was found; False where it was given up meanwhile."""
    return _end(
        peek_id,
        state=SlotPeek.State.FAILED,
        problem_code=code,
        problem_cause=cause,
        problem_remedy=remedy,
    )


def _end(peek_id: int, **columns: Any) -> bool:
    running = SlotPeek.objects.filter(pk=peek_id, state=SlotPeek.State.RUNNING)
    return running.update(finished_at=timezone.now(), **columns) == 1


def fail_abandoned() -> int:
    """Give up those whose worker vanished; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_FAIL_ABANDONED, [ABANDONED_AFTER_SECONDS])
        return int(cursor.rowcount)


def delete_old() -> int:
    """Delete looks nobody needs any more; returns how many."""
    old = SlotPeek.objects.filter(requested_at__lt=timezone.now() - KEPT)
    return old.delete()[0]


def _storable(result: dict[str, Any]) -> dict[str, Any]:
    """Within JSONB's limits: no NUL in a text, and not too large."""
    if len(orjson.dumps(result)) > RESULT_LIMIT_BYTES:
        unknown = [*result.get("unknown", []), _TOLD]
        result = {**result, "first_changes": [], "unknown": unknown}
    # JSONB does not keep the order of an object's keys, which is that of the table's columns.
    changes = [
        {**change, "columns": list(change.get("new") or change.get("old") or {})}
        for change in result.get("first_changes") or []
    ]
    cleaned: dict[str, Any] = _without_nul({**result, "first_changes": changes})
    return cleaned


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "�")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(item) for item in value]
    return value
