"""A change that cannot be stored stops its slot, and is kept until somebody decides about it.

Nothing is skipped automatically and nothing is retried forever: the source keeps what was not
confirmed, and the decision (try again, or leave the transaction out) is recorded with a name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from django.utils.text import capfirst

from decoder.lifecycle import Streaming
from decoder.scalars import LSN, lsn_from_text, lsn_text
from decoder.skipping import FrameFilter, message_lsn, opening_of
from replview.catalog.problems import SourceProblem
from replview.receiver.culprits import Culprit
from replview.receiver.mask_rules import withholds_raw
from replview.store.write import lease as leases
from replview.store.write.incarnations import SlotRow, log_event
from replview.store.write.lease import Lease

#: A longer message is truncated to this size.
_RAW_LIMIT_BYTES = 64 * 1024 * 1024
_REMEDY = (
    "Remove the cause and try again, or skip the transaction, on the slot's page or with replview "
    "slot quarantine"
)


@dataclass(frozen=True, slots=True)
class Skip:
    """A decision to leave something out of the record that was not carried out yet."""

    quarantine_id: int
    #: None for a message outside any transaction, which ``lsn`` identifies.
    xid: int | None
    #: Position of the commit or prepare; None where the stream had not sent it.
    final_lsn: int | None
    lsn: int | None
    by: str

    def context(self) -> dict[str, object]:
        """Return the note of the decision for the ``context`` of the transaction left out."""
        return {"$skipped": {"quarantine": self.quarantine_id, "by": self.by}}


class Skips:
    """The decisions to leave something out that a session must carry out; nearly always none."""

    def __init__(self, skips: Iterable[Skip] = ()) -> None:
        self._skips = list(skips)

    def __bool__(self) -> bool:
        return bool(self._skips)

    def for_transaction(self, xid: int, final_lsn: int | None) -> Skip | None:
        """Return the decision about this transaction, or None.

        The xid alone does not identify a transaction, since xids wrap around: where both positions
        of its commit or prepare are known, they must be equal too.
        """
        for skip in self._skips:
            both_known = skip.final_lsn is not None and final_lsn is not None
            if skip.xid == xid and (not both_known or skip.final_lsn == final_lsn):
                return skip
        return None

    def for_message(self, lsn: int) -> Skip | None:
        """Return the decision about the message outside any transaction at ``lsn``, or None."""
        skips = (skip for skip in self._skips if skip.xid is None and skip.lsn == lsn)
        return next(skips, None)


class StopPoint:
    """The point in a stream where a session must stop: just before one transaction or message."""

    def __init__(self, xid: int | None, final_lsn: int | None, lsn: int | None = None) -> None:
        """Set the point before which to stop.

        ``xid`` and ``final_lsn`` (the position of commit or prepare) identify a transaction.
        Without an ``xid``, ``lsn`` identifies a message outside any transaction.
        """
        self._there = Skips([Skip(0, xid, final_lsn, lsn, "")])
        #: True once the transaction or message was received: the session must not store it.
        self.reached = False

    def cut(self, frames: list[bytes]) -> list[bytes]:
        """Return the frames before the point, and set ``reached`` if it is among them."""
        for index, frame in enumerate(frames):
            if self._is_there(frame):
                self.reached = True
                return frames[:index]
        return frames

    def _is_there(self, frame: bytes) -> bool:
        if (opening := opening_of(frame)) is not None:
            return self._there.for_transaction(*opening) is not None
        lsn = message_lsn(frame)
        return lsn is not None and self._there.for_message(lsn) is not None


def left_out_of(skips: Skips, streaming: Streaming, encoding: str) -> FrameFilter:
    """Return a filter that drops the rows of the transactions in ``skips``.

    It works on frames, since the rows may not be decodable.
    """

    def wanted(xid: int, final_lsn: int | None) -> bool:
        return skips.for_transaction(xid, final_lsn) is not None

    return FrameFilter(wanted, streaming=streaming, encoding=encoding)


def read_skips(store: psycopg.Connection[Any], slot_id: int) -> Skips:
    """Return the slot's decisions to leave something out that were not carried out yet."""
    rows = store.execute(
        "SELECT id, xid, final_lsn::text, lsn::text, decided_by FROM quarantine "
        "WHERE slot_id = %s AND decision = 'skip' AND settled_at IS NULL",
        [slot_id],
    ).fetchall()
    return Skips(
        Skip(identifier, xid, lsn_from_text(final), lsn_from_text(lsn), by)
        for identifier, xid, final, lsn, by in rows
    )


def settle(store: psycopg.Connection[Any], quarantine_ids: Iterable[int]) -> None:
    """Mark decisions, by their identifiers, as carried out.

    Call it inside the store transaction that carries them out.
    """
    store.execute(
        "UPDATE quarantine SET settled_at = clock_timestamp() WHERE id = ANY(%s)",
        [list(quarantine_ids)],
    )


@dataclass(frozen=True, slots=True)
class PendingDecision:
    """A quarantined change that its slot waits for, and the decision about it."""

    id: int
    cause: str
    remedy: str
    #: Empty while nobody has decided.
    decision: str
    by: str

    @property
    def trouble(self) -> SourceProblem:
        """Return the problem to show while the slot waits."""
        return SourceProblem("quarantined", self.cause, self.remedy)


def quarantine(
    store: psycopg.Connection[Any], lease: Lease, slot: SlotRow, culprit: Culprit
) -> None:
    """Store the culprit, with its raw message if that is allowed, and log it. Raises ``Fenced``."""
    position = f", at {LSN(culprit.lsn)}" if culprit.lsn else ""
    place = f" (transaction {culprit.xid}{position})" if culprit.xid is not None else position
    cause = f"{culprit.cause}{place}"
    with store.transaction():
        leases.beat(store, lease)
        incarnation = read_incarnation(store, slot)
        raw = culprit.raw[:_RAW_LIMIT_BYTES]
        if raw and withholds_raw(store, slot.id, slot.column_rules, culprit.relation):
            raw = b""
        row = store.execute(
            """
            INSERT INTO quarantine (slot_id, incarnation_id, found_at, xid, gid, final_lsn, lsn,
                relation, tag, raw, raw_bytes, cause, remedy, decision, decided_by)
            VALUES (%s, %s, clock_timestamp(), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, '', '')
            RETURNING id
            """,
            [
                slot.id, incarnation[0], culprit.xid, culprit.gid, lsn_text(culprit.final_lsn),
                lsn_text(culprit.lsn), culprit.relation, culprit.tag,
                raw, len(culprit.raw), cause, _REMEDY,
            ],
        ).fetchone()  # fmt: skip
        assert row is not None
        log_event(
            store,
            slot.id,
            "quarantined",
            f"{capfirst(cause)}. Receiving stopped before it.",
            incarnation_id=incarnation[0],
            after_commit_seq=incarnation[1],
            lsn=culprit.lsn,
            detail={"quarantine": row[0], "xid": culprit.xid, "relation": culprit.relation},
        )


def waiting(store: psycopg.Connection[Any], slot_id: int) -> PendingDecision | None:
    """Return the quarantined change that the slot must wait for; None if it may be received.

    A decision to try again that was not carried out yet is returned too. A decision to leave
    something out does not hold the slot up: it is carried out while receiving (``read_skips``).
    """
    row = store.execute(
        "SELECT id, cause, remedy, decision, decided_by FROM quarantine "
        "WHERE slot_id = %s AND settled_at IS NULL AND decision <> 'skip' ORDER BY id LIMIT 1",
        [slot_id],
    ).fetchone()
    return None if row is None else PendingDecision(*row)


def try_again(store: psycopg.Connection[Any], slot: SlotRow, pending: PendingDecision) -> None:
    """Carry out the decision to receive the change again, and write a line into the slot's log."""
    with store.transaction():
        store.execute(
            "UPDATE quarantine SET settled_at = clock_timestamp() WHERE id = %s", [pending.id]
        )
        account = pending.by or "a user"
        log_event(
            store, slot.id, "retried", f"The change is received again, as {account} decided.",
            incarnation_id=slot.incarnation_id, after_commit_seq=slot.commit_seq,
            detail={"quarantine": pending.id},
        )  # fmt: skip


def read_incarnation(store: psycopg.Connection[Any], slot: SlotRow) -> tuple[int, int]:
    """Return the slot's current incarnation and its last commit_seq."""
    row = store.execute(
        "SELECT i.id, i.commit_seq FROM slot s JOIN slot_incarnation i ON i.id = s.incarnation_id "
        "WHERE s.id = %s",
        [slot.id],
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
