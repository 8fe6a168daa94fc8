"""Record portions that each send open streamed transactions again from their beginning.

The SQL interface's peeks do that. The rows of such a transaction stay visible as last received
until it was received again as far as the new portion goes; then the new row replaces the former
one, in one store transaction. Meanwhile the new row is in the state ``receiving`` although it is
streamed, a combination that no other row has: pages omit such rows.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from decoder.events import (
    Event,
    OpenTransaction,
    SubtransactionAborted,
    TransactionAborted,
    TransactionCommitted,
    TransactionPrepared,
    UnknownAborted,
)
from replview.receiver.storing.batching import Recorder
from replview.receiver.storing.portions import Portion
from replview.store.write.copy_rows import CopiedTransaction

#: Seconds for which an aborted transaction is remembered: far shorter than xids take to wrap
#: around.
_REMEMBER_SECONDS = 3600.0
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class PeekEnded:
    """A portion was received whole: an event of the receiver among the decoder's events."""

    #: Streamed transactions that are still open.
    open_streams: Collection[OpenTransaction]
    #: Earlier streamed transactions that a state query reported as aborted.
    aborted_xids: Collection[int]


class PeekRecorder(Recorder):
    """A recorder that recognizes, by its xid, a transaction that is sent again."""

    #: A peek begins where the slot was advanced to, which may not have been possible yet.
    sends_in_order = False

    def __init__(self, **arguments: Any) -> None:
        """Take the arguments of ``Recorder``."""
        super().__init__(**arguments)
        #: Open transactions that are visible, by xid, as last received whole.
        self._former: dict[int, OpenTransaction] = {}
        #: Time of abort by xid, for transactions that may be sent again until the slot has passed
        #: them.
        self._aborted_at: dict[int, float] = {}

    def _opened(self, portion: Portion, transaction: OpenTransaction, received_at_us: int) -> None:
        super()._opened(portion, transaction, received_at_us)
        row: CopiedTransaction = transaction.tag
        if row.skipped:
            return
        if row.streamed and self._has_aborted(transaction.xid):
            row.skipped = True
        elif (former := self._former.get(transaction.xid)) is not None:
            row.received_at_us = former.tag.received_at_us
            row.state, row.streamed = "receiving", True

    def _committed(self, portion: Portion, event: TransactionCommitted) -> None:
        super()._committed(portion, event)
        self._replace(portion, event.transaction)

    def _prepared(self, portion: Portion, event: TransactionPrepared) -> None:
        super()._prepared(portion, event)
        self._replace(portion, event.transaction)

    def _subtransaction_aborted(self, portion: Portion, event: SubtransactionAborted) -> None:
        if not event.transaction.tag.skipped:
            super()._subtransaction_aborted(portion, event)

    def _aborted(self, portion: Portion, event: TransactionAborted) -> None:
        if not event.transaction.tag.skipped:
            self._end_for_nothing(portion, event)

    def _rare(self, portion: Portion, event: Event | PeekEnded, received_at_us: int) -> None:
        if isinstance(event, PeekEnded):
            self._peek_ended(portion, event)
        elif isinstance(event, UnknownAborted):
            # PostgreSQL 18 also sends the abort of a transaction that it no longer streams because
            # it aborted.
            former = self._former.get(event.xid)
            if former is not None and event.subxid == event.xid:
                abort = TransactionAborted(former, event.abort_lsn, event.abort_time_us)
                self._end_for_nothing(portion, abort)
        else:
            super()._rare(portion, event, received_at_us)

    def _end_for_nothing(self, portion: Portion, event: TransactionAborted) -> None:
        """Record that a transaction aborted, and keep the longer of its two receptions.

        The server stops sending a transaction as soon as it notices the abort, so the later one may
        be shorter.
        """
        xid = event.transaction.xid
        former = self._former.get(xid)
        if former is not None and former.tag.size_bytes > event.transaction.tag.size_bytes:
            portion.discard(event.transaction.tag)
            event = TransactionAborted(former, event.abort_lsn, event.abort_time_us)
        super()._aborted(portion, event)
        self._replace(portion, event.transaction)
        self._remember_aborted(xid)

    def _replace(self, portion: Portion, transaction: OpenTransaction) -> None:
        """Replace the visible rows of a transaction by the ones that were just received."""
        former = self._former.pop(transaction.xid, None)
        self.open_xids = tuple(self._former)
        if former is not None and former is not transaction:
            portion.discard(former.tag)
            portion.open_changed = True

    def _peek_ended(self, portion: Portion, event: PeekEnded) -> None:
        for transaction in event.open_streams:
            row: CopiedTransaction = transaction.tag
            if row.skipped or row.left_out is not None:
                continue
            if not row.size_bytes:
                # An open transaction without data is aborting at this moment.
                portion.discard(row)
                continue
            self._replace(portion, transaction)
            row.state = "streaming"
            portion.rows[row.id] = row
            portion.open_changed = True
            self._former[transaction.xid] = transaction
        open_xids = {transaction.xid for transaction in event.open_streams}
        for xid in set(event.aborted_xids) - open_xids:
            if (former := self._former.get(xid)) is not None:
                self._end_for_nothing(portion, TransactionAborted(former, None, None))
        self.open_xids = tuple(self._former)

    def _has_aborted(self, xid: int) -> bool:
        """Return whether a transaction of this xid aborted within the last hour."""
        aborted_at = self._aborted_at.get(xid)
        return aborted_at is not None and time.monotonic() - aborted_at < _REMEMBER_SECONDS

    def _remember_aborted(self, xid: int) -> None:
        """Note the abort of a transaction; forget the oldest one beyond the limit."""
        self._aborted_at.pop(xid, None)
        self._aborted_at[xid] = time.monotonic()
        if len(self._aborted_at) > _MAX_REMEMBERED:
            del self._aborted_at[next(iter(self._aborted_at))]
