"""A peek into a slot is requested by a page and done by one worker; its result is kept a week.

A peek fails when its worker is lost.
"""

import datetime as dt
from typing import Any

import orjson
from django.db.models import DurationField, ExpressionWrapper, F, Value
from django.db.models.functions import Now
from django.utils import timezone

from replview.jobs.rows import JobRows
from replview.store.models import SlotPeek, Source

#: Seconds beyond a peek's limit after which its worker counts as lost.
ABANDONED_AFTER_SECONDS = 60
KEPT = dt.timedelta(days=7)
#: A larger result is stored without the changes themselves.
RESULT_LIMIT_BYTES = 16 << 20
_CHANGES_OMITTED = "the changes themselves: together they are larger than a result may be"

rows = JobRows(
    SlotPeek, task="replview.serve_peeks", lost_seconds=ABANDONED_AFTER_SECONDS, beside=("source",)
)


def request(
    source: Source,
    slot_name: str,
    *,
    options: dict[str, Any],
    max_changes: int,
    max_seconds: float,
    by: str,
) -> SlotPeek:
    """Ask for a peek; a worker claims it at once."""
    peek = SlotPeek.objects.create(
        source=source,
        slot_name=slot_name,
        options=options,
        max_changes=max_changes,
        max_seconds=max_seconds,
        requested_by=by,
    )
    rows.announce()
    return peek


def finish(claim: SlotPeek, result: dict[str, Any]) -> bool:
    """Store the result of a peek; False where the peek was cancelled meanwhile."""
    return rows.finish(claim, result=_storable(result))


def fail_abandoned() -> int:
    """Fail the peeks that exceed their limit, as they have no heartbeat. Returns their number."""
    may_last = ExpressionWrapper(
        F("max_seconds") * Value(dt.timedelta(seconds=1)), output_field=DurationField()
    )
    patience = dt.timedelta(seconds=ABANDONED_AFTER_SECONDS)
    return rows.leave(
        rows.rows(rows.running, started_at__lt=Now() - may_last - patience),
        "FAILED",
        finished_at=Now(),
        problem_code="abandoned",
        problem_cause="the worker ended before the peek had finished",
        problem_remedy="Peek again",
    )


def delete_old() -> int:
    """Delete peeks older than a week; return their number."""
    return SlotPeek.objects.filter(requested_at__lt=timezone.now() - KEPT).delete()[0]


def _storable(result: dict[str, Any]) -> dict[str, object]:
    """Return the result within JSONB's limits: without NUL characters, and not too large."""
    if len(orjson.dumps(result)) > RESULT_LIMIT_BYTES:
        unknown = [*result.get("unknown", []), _CHANGES_OMITTED]
        result = {**result, "first_changes": [], "unknown": unknown}
    # Store the order of columns, because JSONB does not keep the order of an object's keys.
    changes = [
        {**change, "columns": list(change.get("new") or change.get("old") or {})}
        for change in result.get("first_changes") or []
    ]
    cleaned: dict[str, Any] = _without_nul({**result, "first_changes": changes})
    return cleaned


def _without_nul(value: object) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "�")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(item) for item in value]
    return value
