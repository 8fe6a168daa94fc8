"""A receiver reports the slot's state for the pages, and writes lines into the slot's log."""

import time
from typing import Any

import orjson
import psycopg
from django.utils.text import capfirst

from decoder.scalars import LSN
from replview.catalog.problems import SourceProblem
from replview.receiver.process import resident_bytes
from replview.receiver.storing.portions import Portion
from replview.store.write import lease as leases
from replview.store.write.incarnations import SessionIncarnation, SlotRow, log_event
from replview.store.write.lease import Lease

#: Seconds between two reports of a receiver's facts, however many batches there are.
_REPORT_SECONDS = 1.0


def record_streaming(
    store: psycopg.Connection[Any], lease: Lease, incarnation: SessionIncarnation, *, again: bool
) -> str:
    """Record that the stream has begun, in the slot's row and its log. Raises ``Fenced``.

    Returns the state that is desired of the slot (``running``, ``stopped``, ``removing``).
    """
    desired = leases.beat(
        store,
        lease,
        state="streaming",
        problem_code="",
        problem_cause="",
        problem_remedy="",
        retry_at=None,
    )
    store.execute(
        "UPDATE slot SET state_since = now(), connected_at = now() WHERE id = %s AND epoch = %s",
        [lease.slot_id, lease.epoch],
    )
    log_event(
        store,
        lease.slot_id,
        "connected",
        f"Connected {'again ' if again else ''}at {incarnation.checkpoint_lsn}.",
        incarnation_id=incarnation.id,
        after_commit_seq=incarnation.commit_seq,
        lsn=incarnation.checkpoint_lsn,
    )
    return desired


def record_trouble(
    store: psycopg.Connection[Any],
    lease: Lease,
    state: str,
    trouble: SourceProblem,
    *,
    retry_seconds: float | None = None,
) -> str:
    """Record in the slot's row what is wrong, and when the next attempt is. Raises ``Fenced``.

    Returns the state that is desired of the slot. ``retry_seconds`` is None if no retry is planned.
    """
    remedy = trouble.remedy
    if trouble.field == "interface":
        remedy += ": replview slot interface SOURCE NAME sql"
    desired = leases.beat(
        store,
        lease,
        state=state,
        problem_code=trouble.code,
        problem_cause=trouble.cause,
        problem_remedy=remedy,
        retry_at=None,
    )
    if retry_seconds is not None:
        store.execute(
            "UPDATE slot SET retry_at = now() + make_interval(secs => %s) "
            "WHERE id = %s AND epoch = %s",
            [retry_seconds, lease.slot_id, lease.epoch],
        )
    return desired


def log_trouble(
    store: psycopg.Connection[Any], lease: Lease, kind: str, trouble: SourceProblem
) -> None:
    """Write the cause of a problem into the slot's log."""
    cause = f"{capfirst(trouble.cause)}."
    log_event(store, lease.slot_id, kind, cause, detail={"code": trouble.code})


def log_takeover(store: psycopg.Connection[Any], lease: Lease) -> None:
    """Write into the slot's log that it was taken over from a receiver whose lease had run out."""
    log_event(
        store,
        lease.slot_id,
        "taken_over",
        f"The receiver at {lease.taken_from} sent no heartbeat any more: {lease.owner} took over.",
    )


def log_store_outage(store: psycopg.Connection[Any], lease: Lease, seconds: float) -> None:
    """Write into the slot's log for how long the store could not be reached."""
    log_event(
        store,
        lease.slot_id,
        "disconnected",
        f"The connection to replview's own store was lost for {seconds:.1f} s; nothing was "
        "confirmed meanwhile, and what was not stored is received again.",
        detail={"code": "store_away", "seconds": round(seconds, 1)},
    )


def facts_for_logs(slot: SlotRow, lease: Lease, first_lsn: LSN | None) -> dict[str, object]:
    """Return the slot and the session's first position for log lines: no data that it receives."""
    return {
        "slot_id": slot.id,
        "slot": slot.name,
        "source_id": slot.source_id,
        "epoch": lease.epoch,
        "lsn": None if first_lsn is None else str(first_lsn),
    }


class ReceiverFacts:
    """The figures that one receiver reports about itself in ``slot.receiver_facts``."""

    def __init__(self) -> None:
        self._batch: dict[str, float] = {}
        self._told_at = 0.0

    def stored(self, portion: Portion, seconds: float) -> None:
        """Record how long a store transaction took; one without changes does not count."""
        if portion.changes:
            self._batch = {
                "batch_changes": portion.changes,
                "batch_bytes": portion.size_bytes,
                "batch_seconds": round(seconds, 6),
            }

    def to_tell(self) -> str | None:
        """Return the JSON for the slot's row; None while the last report is recent enough."""
        now = time.monotonic()
        if now - self._told_at < _REPORT_SECONDS * 0.9:
            return None
        self._told_at = now
        return orjson.dumps({**self._batch, "memory_bytes": resident_bytes()}).decode()
