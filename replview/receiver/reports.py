"""What a receiver says of itself: the slot's state for the pages, and lines in its log."""

import os
import time
from pathlib import Path
from typing import Any

import orjson
import psycopg

from decoder.scalars import LSN
from replview.catalog.problems import SourceProblem
from replview.receiver.storing.portions import Portion
from replview.store.write import lease as leases
from replview.store.write.incarnations import Incarnation, SlotRow, log_event
from replview.store.write.lease import Lease

#: It is told so often, however many batches there are.
_TELL_SECONDS = 1.0
_STATM = Path("/proc/self/statm")


def say_streaming(
    store: psycopg.Connection[Any], lease: Lease, incarnation: Incarnation, *, again: bool
) -> str:
    """Note that the stream has begun, in the slot's row and its log. Returns the state that is
    desired of the slot (``running``, ``stopped``, ``removing``). Raises ``Fenced``.
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


def say_trouble(
    store: psycopg.Connection[Any],
    lease: Lease,
    state: str,
    trouble: SourceProblem,
    *,
    retry_seconds: float | None = None,
) -> str:
    """Note in the slot's row what is wrong, and that it is tried again in ``retry_seconds``.
    Returns the state that is desired of the slot. Raises ``Fenced``.
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
    cause = f"{trouble.cause[:1].upper()}{trouble.cause[1:]}."
    log_event(store, lease.slot_id, kind, cause, detail={"code": trouble.code})


def say_taken_over(store: psycopg.Connection[Any], lease: Lease) -> None:
    """Write into the slot's log that it was taken over from a receiver whose lease had run out."""
    log_event(
        store,
        lease.slot_id,
        "taken_over",
        f"The receiver at {lease.taken_from} sent no heartbeat any more: {lease.owner} took over.",
    )


def say_store_was_away(store: psycopg.Connection[Any], lease: Lease, seconds: float) -> None:
    """Write into the slot's log that the store could not be reached, and nothing be written."""
    log_event(
        store,
        lease.slot_id,
        "disconnected",
        f"The connection to replview's own store was lost for {seconds:.1f} s; nothing was "
        "confirmed meanwhile, and what was not stored is received again.",
        detail={"code": "store_away", "seconds": round(seconds, 1)},
    )


def facts_for_logs(slot: SlotRow, lease: Lease, began: LSN | None) -> dict[str, object]:
    """Which slot, and where in its WAL the session began: never anything of what flows through."""
    return {
        "slot_id": slot.id,
        "slot": slot.name,
        "source_id": slot.source_id,
        "epoch": lease.epoch,
        "lsn": None if began is None else str(began),
    }


class ReceiverFacts:
    """What one receiver reports about itself in ``slot.receiver_facts``."""

    def __init__(self) -> None:
        self._batch: dict[str, float] = {}
        self._told_at = 0.0

    def stored(self, portion: Portion, seconds: float) -> None:
        """Note how long a store transaction took; one without a change is not counted."""
        if portion.changes:
            self._batch = {
                "batch_changes": portion.changes,
                "batch_bytes": portion.size_bytes,
                "batch_seconds": round(seconds, 6),
            }

    def to_tell(self) -> str | None:
        """Return the JSON for the slot's row; None while the last report is recent enough."""
        now = time.monotonic()
        if now - self._told_at < _TELL_SECONDS * 0.9:
            return None
        self._told_at = now
        return orjson.dumps({**self._batch, "memory_bytes": _memory_bytes()}).decode()


def _memory_bytes() -> int | None:
    """What the process holds in memory; it may receive other slots too. None where unknown."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
