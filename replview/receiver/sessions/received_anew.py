"""Recording portions that each send open streamed transactions from their beginning.

The SQL interface's peeks do. What was received of such a transaction stays visible as it was until
it has come anew as far as this portion has it; then the new row takes the former one's place, in
one store transaction. Meanwhile the new row is ``receiving`` although streamed, which no other ever
is: pages leave such rows out.
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
from replview.store.write.copy_rows import TransactionRow

#: An aborted transaction is known again for so long: far shorter than it takes xids to wrap.
_REMEMBERED_SECONDS = 3600.0
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class PeekEnded:
    """A portion has been received whole; a receiver's event among the decoder's."""

    #: Streamed transactions it left open.
    open_streams: Collection[OpenTransaction]
    #: Earlier ones that the source, asked apart from the stream, says have aborted.
    aborted_xids: Collection[int]


class PeekRecorder(Recorder):
    """A recorder that knows transactions again when they come anew, by their xid."""

    #: A peek begins where the slot was advanced to, which may not have been possible yet.
    sends_in_order = False

    def __init__(self, **arguments: Any) -> None:
        """Takes the arguments of ``Recorder``."""
        super().__init__(**arguments)
        #: Those that are open and shown, as last received whole.
        self._former: dict[int, OpenTransaction] = {}
        #: When those aborted that may come once more, before the slot has gone beyond them.
        self._aborted_at: dict[int, float] = {}

    def _opened(self, portion: Portion, transaction: OpenTransaction, received_at_us: int) -> None:
        super()._opened(portion, transaction, received_at_us)
        row: TransactionRow = transaction.tag
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
            # 18 tells the end of what it does not stream again, because it has aborted by now.
            former = self._former.get(event.xid)
            if former is not None and event.subxid == event.xid:
                abort = TransactionAborted(former, event.abort_lsn, event.abort_time_us)
                self._end_for_nothing(portion, abort)
        else:
            super()._rare(portion, event, received_at_us)

    def _end_for_nothing(self, portion: Portion, event: TransactionAborted) -> None:
        """Of two receptions the longer one tells more: the server stops sending a transaction as
        soon as it knows that it has aborted.
        """
        xid = event.transaction.xid
        former = self._former.get(xid)
        if former is not None and former.tag.size_bytes > event.transaction.tag.size_bytes:
            portion.discard(event.transaction.tag)
            event = TransactionAborted(former, event.abort_lsn, event.abort_time_us)
        super()._aborted(portion, event)
        self._replace(portion, event.transaction)
        self._aborted_at[xid] = time.monotonic()

    def _replace(self, portion: Portion, transaction: OpenTransaction) -> None:
        """What was shown of a transaction makes way for this reception of it."""
        former = self._former.pop(transaction.xid, None)
        self.open_xids = tuple(self._former)
        if former is not None and former is not transaction:
            portion.discard(former.tag)
            portion.open_changed = True

    def _peek_ended(self, portion: Portion, event: PeekEnded) -> None:
        for transaction in event.open_streams:
            row: TransactionRow = transaction.tag
            if row.skipped or row.left_out is not None:
                continue
            if not row.size_bytes:
                # Nothing came though it is open: it is aborting at this moment.
                portion.discard(row)
                continue
            self._replace(portion, transaction)
            row.state = "streaming"
            portion.rows[row.id] = row
            portion.open_changed = True
            self._former[transaction.xid] = transaction
        still_open = {transaction.xid for transaction in event.open_streams}
        for xid in set(event.aborted_xids) - still_open:
            if (former := self._former.get(xid)) is not None:
                self._end_for_nothing(portion, TransactionAborted(former, None, None))
        self.open_xids = tuple(self._former)

    def _has_aborted(self, xid: int) -> bool:
        at = self._aborted_at.get(xid)
        if at is not None and time.monotonic() - at < _REMEMBERED_SECONDS:
            return True
        if at is not None or len(self._aborted_at) > _REMEMBERED:
            self._aborted_at.clear()
        return False
