"""Transactions to leave out of the record, because somebody decided so and put their name to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from decoder.scalars import LSN
from decoder.skipping import TransactionFilter, message_lsn, opening_of
from decoder.stream import Streaming


@dataclass(frozen=True, slots=True)
class Skip:
    """One decision that has not had its effect yet."""

    quarantine_id: int
    #: None: a message outside any transaction, known by its ``lsn``.
    xid: int | None
    #: Where its commit or prepare is; None where the stream had not told.
    final_lsn: int | None
    lsn: int | None
    by: str

    def context(self) -> dict[str, object]:
        """What the transaction's row tells of it."""
        return {"$skipped": {"quarantine": self.quarantine_id, "by": self.by}}


class Skips:
    """The decisions a session must carry out; nearly always none."""

    def __init__(self, skips: Iterable[Skip] = ()) -> None:
        self._skips = list(skips)

    def __bool__(self) -> bool:
        return bool(self._skips)

    def for_transaction(self, xid: int, final_lsn: int | None) -> Skip | None:
        """The decision about this transaction. An xid alone may be another's, after a wrap."""
        for skip in self._skips:
            told = skip.final_lsn is not None and final_lsn is not None
            if skip.xid == xid and (not told or skip.final_lsn == final_lsn):
                return skip
        return None

    def for_message(self, lsn: int) -> Skip | None:
        """The decision about a message outside any transaction."""
        found = (skip for skip in self._skips if skip.xid is None and skip.lsn == lsn)
        return next(found, None)


class Before:
    """Reads a stream up to where one transaction begins, or one message outside any comes, and no
    further.
    """

    def __init__(self, xid: int | None, final_lsn: int | None, lsn: int | None = None) -> None:
        """``lsn``: of the message, where there is no ``xid``."""
        self._there = Skips([Skip(0, xid, final_lsn, lsn, "")])
        #: It has begun: what follows is not for this session.
        self.reached = False

    def cut(self, frames: list[bytes]) -> list[bytes]:
        """The frames before it."""
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


def left_out_of(skips: Skips, streaming: Streaming, encoding: str) -> TransactionFilter:
    """Drops the rows of these transactions before they are decoded: they may be undecodable."""

    def wanted(xid: int, final_lsn: int | None) -> bool:
        return skips.for_transaction(xid, final_lsn) is not None

    return TransactionFilter(wanted, streaming=streaming, encoding=encoding)


def read_skips(store: psycopg.Connection[Any], slot_id: int) -> Skips:
    """The decisions of a slot that have not had their effect yet."""
    rows = store.execute(
        "SELECT id, xid, final_lsn::text, lsn::text, decided_by FROM quarantine "
        "WHERE slot_id = %s AND decision = 'skip' AND settled_at IS NULL",
        [slot_id],
    ).fetchall()
    return Skips(
        Skip(identifier, xid, _position(final), _position(lsn), by)
        for identifier, xid, final, lsn, by in rows
    )


def settle(store: psycopg.Connection[Any], quarantine_ids: Iterable[int]) -> None:
    """The decisions had their effect; runs inside the store transaction that makes it so."""
    store.execute(
        "UPDATE quarantine SET settled_at = clock_timestamp() WHERE id = ANY(%s)",
        [list(quarantine_ids)],
    )


def _position(text: str | None) -> int | None:
    return None if text is None else LSN.parse(text)
