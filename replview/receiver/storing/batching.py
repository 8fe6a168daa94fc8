"""Turn events into portions: the rows, changes and positions that one store transaction writes.

This is pure code except for queries of the store: identifiers, and rarely whether a prepared
transaction is stored. What the checkpoint already covers is marked as skipped here, so that a
server that sends something twice (16 after a restart) changes nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from decoder.events import (
    ChangeRun,
    Event,
    OpenTransaction,
    PreparedCommitted,
    PreparedRolledBack,
    RelationSeen,
    StandaloneMessage,
    SubtransactionAborted,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
    TransactionPrepared,
    TypeSeen,
)
from decoder.scalars import LSN
from replview.receiver.actors import note_actor
from replview.receiver.problems import trouble
from replview.receiver.quarantine import Skip, Skips
from replview.receiver.storing.encoding import message_document
from replview.receiver.storing.portions import (
    MessageRow,
    Portion,
    StateTransition,
    Tombstone,
    left_out,
    resent,
    wrapped,
)
from replview.store.write.copy_rows import CopiedTransaction

#: A new xid this far below the last one comes after a wraparound: it is not just an older one.
_HALF_OF_XIDS = 1 << 31


class Recorder:
    """A recorder keeps the open transactions of one session, and turns events into portions."""

    #: Whether a session sends transactions in the order in which they committed, each once.
    sends_in_order = True

    def __init__(
        self,
        *,
        incarnation_id: int,
        checkpoint_lsn: int,
        next_id: Callable[[], int],
        is_stored: Callable[[OpenTransaction], bool],
        was_aborted: Callable[[int], bool] = lambda xid: False,
        skips: Skips | None = None,
        first_seen: Mapping[int, int] | None = None,
    ) -> None:
        """Begin with the stored checkpoint.

        ``first_seen`` says when transactions that are sent again were first seen, by xid.
        """
        self._incarnation_id = incarnation_id
        self.checkpoint_lsn = checkpoint_lsn
        self._next_id = next_id
        self._is_stored = is_stored
        self._was_aborted = was_aborted
        self._skips = skips or Skips()
        self.first_seen: dict[int, int] = dict(first_seen or {})
        self._last_xid = 0
        #: Streamed transactions that stay open over several peeks (``received_anew``).
        self.open_xids: tuple[int, ...] = ()
        #: Number of transactions that the server sent although the store has them.
        self.sent_again = 0
        #: Something that the store did not have has ended in this session.
        self._has_ended = False

    def digest(self, events: Iterable[Event], received_at_us: int) -> Portion:
        """Return the portion that a batch makes: what one store transaction must write."""
        portion = Portion(checkpoint_lsn=self.checkpoint_lsn)
        for event in events:
            kind = event.__class__
            if kind is ChangeRun:
                self._run(portion, event)  # type: ignore[arg-type]
            elif kind is TransactionOpened:
                self._opened(portion, event.transaction, received_at_us)  # type: ignore[union-attr, arg-type]
            elif kind is TransactionCommitted:
                self._committed(portion, event)  # type: ignore[arg-type]
            else:
                self._rare(portion, event, received_at_us)
        if self.sent_again and portion.committed:
            portion.notes.append(resent(self.sent_again, self.checkpoint_lsn))
            self.sent_again = 0
        self.checkpoint_lsn = portion.checkpoint_lsn
        return portion

    def _opened(self, portion: Portion, transaction: OpenTransaction, received_at_us: int) -> None:
        """Create the transaction's row; it reaches the store with its first change or its end."""
        streamed = transaction.kind == "streamed"
        self._check_order(portion, transaction)
        # The checkpoint is where a stored commit or prepare *ended*.
        final_lsn = transaction.final_lsn
        is_stored = final_lsn is not None and final_lsn < self.checkpoint_lsn
        if is_stored and transaction.kind == "prepared":
            # A transaction prepared before the slot's first position is sent just before its COMMIT
            # PREPARED: its prepare is before the checkpoint, and yet it may not be stored.
            is_stored = self._is_stored(transaction)
        elif streamed:
            # After a reconnect the server may stream a transaction again that was prepared long
            # ago; then it sends only its COMMIT PREPARED or ROLLBACK PREPARED.
            is_stored = self._is_stored(transaction)
        xid = transaction.xid
        transaction.tag = row = CopiedTransaction(
            id=0 if is_stored else self._next_id(),
            incarnation_id=self._incarnation_id,
            received_at_us=received_at_us,
            xid=xid,
            state="streaming" if streamed else "receiving",
            streamed=streamed,
            skipped=is_stored,
        )
        self.sent_again += is_stored and not streamed
        if xid > self._last_xid:
            # An xid far above the last one is from before the wraparound: a late one, not the
            # newest.
            if xid - self._last_xid < _HALF_OF_XIDS or not self._last_xid:
                self._last_xid = xid
        elif self._last_xid - xid > _HALF_OF_XIDS:
            portion.notes.append(wrapped(transaction.first_lsn))
            self._last_xid = xid
        if self.first_seen:
            row.received_at_us = self.first_seen.pop(xid, received_at_us)
        if self._skips:
            self._leave_out(row, self._skips.for_transaction(xid, final_lsn))

    def _check_order(self, portion: Portion, transaction: OpenTransaction) -> None:
        """Raise ``SourceProblem`` if a transaction comes after one that committed later.

        It would be taken for one that the record has, and be lost.
        """
        lsn = transaction.final_lsn
        if not self.sends_in_order or not self._has_ended or transaction.kind != "plain":
            return
        if lsn is not None and lsn < portion.checkpoint_lsn:
            raise trouble("went_back", told=lsn, end=LSN(portion.checkpoint_lsn))

    def _leave_out(self, row: CopiedTransaction, skip: Skip | None) -> None:
        if skip is not None:
            row.left_out, row.context = skip.quarantine_id, skip.context()

    def _run(self, portion: Portion, event: ChangeRun) -> None:
        row: CopiedTransaction = event.transaction.tag
        if row.skipped or row.left_out is not None:
            return
        row.size_bytes += event.size_bytes
        row.last_seq = event.changes[-1].seq
        portion.runs.append((row, event.changes))
        portion.changes += len(event.changes)
        portion.size_bytes += event.size_bytes
        self._touch(portion, event.transaction, row)

    def _touch(
        self, portion: Portion, transaction: OpenTransaction, row: CopiedTransaction
    ) -> None:
        """Include the row in the portion, with what is known of the transaction now."""
        portion.rows[row.id] = row
        row.origin = transaction.origin
        if row.first_lsn is None and transaction.first_lsn:
            row.first_lsn = transaction.first_lsn
        if row.streamed:
            portion.open_changed = True
            if not row.streaming_noted:
                row.streaming_noted = True
                _note_transition(portion, row, "streaming", row.first_lsn, None)

    def _committed(self, portion: Portion, event: TransactionCommitted) -> None:
        row: CopiedTransaction = event.transaction.tag
        if row.skipped or not self._ends(portion, event.end_lsn, row):
            return
        self._touch(portion, event.transaction, row)
        row.state = "committed"
        row.commit_lsn, row.end_lsn = event.commit_lsn, event.end_lsn
        row.set_commit_time(event.commit_time_us)
        portion.committed.append(row)
        if row.left_out is not None:
            row.state = "skipped"
            self._settle(portion, row, event.commit_lsn)
        if row.streamed:
            _note_transition(portion, row, row.state, event.commit_lsn, event.commit_time_us)

    def _settle(self, portion: Portion, row: CopiedTransaction, lsn: int | None) -> None:
        """Record that a transaction, or message, that must be left out was received whole."""
        assert row.left_out is not None
        portion.settled.append(row.left_out)
        portion.notes.append(left_out(row, lsn))

    def _ends(self, portion: Portion, end_lsn: int, row: CopiedTransaction) -> bool:
        """Move the checkpoint; return False, and discard the row, if it covers this end already."""
        if end_lsn <= portion.checkpoint_lsn:
            self.sent_again += 1
            portion.discard(row)
            return False
        portion.checkpoint_lsn = end_lsn
        self._has_ended = True
        return True

    def _rare(self, portion: Portion, event: Event, received_at_us: int) -> None:
        if isinstance(event, RelationSeen):
            portion.relations.append(event)
        elif isinstance(event, TypeSeen):
            portion.types.append(event)
        elif isinstance(event, SubtransactionAborted):
            self._subtransaction_aborted(portion, event)
        elif isinstance(event, TransactionAborted):
            self._aborted(portion, event)
        elif isinstance(event, TransactionPrepared):
            self._prepared(portion, event)
        elif isinstance(event, PreparedCommitted | PreparedRolledBack):
            self._prepared_ended(portion, event)
        elif isinstance(event, StandaloneMessage):
            self._message(portion, event, received_at_us)
        # UnknownAborted: nothing of it is stored, so there is nothing to undo.

    def _subtransaction_aborted(self, portion: Portion, event: SubtransactionAborted) -> None:
        row: CopiedTransaction = event.transaction.tag
        if row.skipped:
            return
        lsn, time_us = event.abort_lsn, event.abort_time_us
        tombstone = Tombstone(row.id, event.subxid, lsn, time_us, row.last_seq)
        portion.tombstones.append(tombstone)
        portion.savepoints.setdefault(row.id, deque()).append(tombstone)
        self._touch(portion, event.transaction, row)

    def _aborted(self, portion: Portion, event: TransactionAborted) -> None:
        row: CopiedTransaction = event.transaction.tag
        if row.skipped:
            return
        if self._was_aborted(event.transaction.xid):
            portion.discard(row)
            return
        self._touch(portion, event.transaction, row)
        row.state = "aborted"
        row.commit_lsn = event.abort_lsn
        row.ended_at_us = event.abort_time_us
        _note_transition(portion, row, "aborted", event.abort_lsn, event.abort_time_us)
        if row.left_out is not None:
            portion.settled.append(row.left_out)
        top_xid = event.transaction.xid
        portion.tombstones.append(Tombstone(row.id, top_xid, event.abort_lsn, event.abort_time_us))

    def _prepared(self, portion: Portion, event: TransactionPrepared) -> None:
        row: CopiedTransaction = event.transaction.tag
        # A transaction that is not skipped, although the checkpoint is beyond it, was prepared
        # before the slot's first position.
        precedes_slot = (
            event.transaction.kind == "prepared" and event.end_lsn <= portion.checkpoint_lsn
        )
        if precedes_slot and event.transaction.final_lsn is None:
            # This plugin sends the prepare's position only here, so look the transaction up now.
            precedes_slot = not self._is_stored(event.transaction)
        if row.skipped or not (precedes_slot or self._ends(portion, event.end_lsn, row)):
            return
        self._touch(portion, event.transaction, row)
        row.state, row.gid = "prepared", event.gid
        portion.prepared[event.gid, event.transaction.xid] = row
        row.prepare_lsn, row.prepared_at_us = event.prepare_lsn, event.prepare_time_us
        portion.open_changed = True
        _note_transition(portion, row, "prepared", event.prepare_lsn, event.prepare_time_us)
        if row.left_out is not None:
            # Settle it now: its end may come in another session.
            self._settle(portion, row, event.prepare_lsn)

    def _prepared_ended(
        self, portion: Portion, event: PreparedCommitted | PreparedRolledBack
    ) -> None:
        """Record COMMIT PREPARED or ROLLBACK PREPARED, unless the checkpoint covers it already."""
        end_lsn = event.end_lsn if isinstance(event, PreparedCommitted) else event.rollback_end_lsn
        if end_lsn <= portion.checkpoint_lsn:
            return
        portion.checkpoint_lsn = end_lsn
        portion.open_changed = True
        if isinstance(event, PreparedCommitted):
            portion.committed.append(event)
        else:
            portion.rolled_back.append(event)

    def _message(self, portion: Portion, event: StandaloneMessage, received_at_us: int) -> None:
        """Record a message outside any transaction; its LSN is the *end* of its WAL record."""
        lsn = event.message.lsn
        if lsn <= portion.checkpoint_lsn:
            return
        portion.checkpoint_lsn = lsn
        row = CopiedTransaction(
            id=self._next_id(),
            incarnation_id=self._incarnation_id,
            received_at_us=received_at_us,
            xid=None,
            state="message",
            first_lsn=event.lsn or lsn,
            messages=1,
            size_bytes=len(event.message.content),
        )
        portion.rows[row.id] = row
        self._leave_out(row, self._skips.for_message(lsn))
        if row.left_out is not None:
            row.state = "skipped"
            self._settle(portion, row, lsn)
            portion.committed.append(row)
            return
        note_actor(row, event.message, 1)
        portion.changes += 1
        portion.size_bytes += len(event.message.content)
        portion.committed.append(MessageRow(row, lsn, message_document(event.message)))


def _note_transition(
    portion: Portion, row: CopiedTransaction, state: str, lsn: int | None, time_us: int | None
) -> None:
    portion.transitions.append(StateTransition(row.id, state, lsn, time_us))
