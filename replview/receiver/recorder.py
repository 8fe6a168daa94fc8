"""Events → what one store transaction writes: rows opened, grown and ended, changes, positions.

Pure but for what it asks the store: identifiers, and seldom whether a prepare is there. What the
checkpoint covers already is marked skipped here, so that a server that sends something twice (16
after a restart) changes nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from decoder.events import (
    Change,
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
from replview.receiver.actors import note_actor
from replview.receiver.message_documents import message_document
from replview.store.transaction_rows import TransactionRow


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An aborted subtransaction of a stored transaction."""

    transaction_id: int
    subxid: int
    abort_lsn: int | None
    abort_time_us: int | None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A non-transactional message: a record of its own, with one change."""

    row: TransactionRow
    lsn: int
    document: dict[str, object]


#: What takes a place in history, in its order.
Committed = TransactionRow | PreparedCommitted | MessageRow


@dataclass(slots=True)
class Portion:
    """What one store transaction writes."""

    relations: list[RelationSeen] = field(default_factory=list)
    types: list[TypeSeen] = field(default_factory=list)
    runs: list[tuple[TransactionRow, list[Change]]] = field(default_factory=list)
    #: Every transaction touched, in order of first touch.
    rows: dict[int, TransactionRow] = field(default_factory=dict)
    committed: list[Committed] = field(default_factory=list)
    rolled_back: list[PreparedRolledBack] = field(default_factory=list)
    #: Transactions prepared here, by gid and xid: a gid alone can be used again at once.
    prepared: dict[tuple[str, int], TransactionRow] = field(default_factory=dict)
    tombstones: list[Tombstone] = field(default_factory=list)
    #: Everything that ends at or before this is stored once the portion is.
    checkpoint_lsn: int = 0
    changes: int = 0
    #: A streamed or prepared transaction began, grew or ended.
    open_changed: bool = False

    @property
    def last_commit_time_us(self) -> int | None:
        """The commit time of the last transaction that ends here."""
        for entry in reversed(self.committed):
            if not isinstance(entry, MessageRow) and entry.commit_time_us is not None:
                return entry.commit_time_us
        return None


class Recorder:
    """Keeps the open transactions of one session and turns events into portions."""

    def __init__(
        self,
        *,
        incarnation_id: int,
        checkpoint_lsn: int,
        next_id: Callable[[], int],
        is_stored: Callable[[OpenTransaction], bool],
    ) -> None:
        self._incarnation_id = incarnation_id
        self.checkpoint_lsn = checkpoint_lsn
        self._next_id = next_id
        self._is_stored = is_stored

    def digest(self, events: Iterable[Event], received_at_us: int) -> Portion:
        """Sort the events of one batch into a portion."""
        portion = Portion(checkpoint_lsn=self.checkpoint_lsn)
        for event in events:
            kind = event.__class__
            if kind is ChangeRun:
                self._run(portion, event)  # type: ignore[arg-type]
            elif kind is TransactionOpened:
                self._opened(event.transaction, received_at_us)  # type: ignore[union-attr, arg-type]
            elif kind is TransactionCommitted:
                self._committed(portion, event)  # type: ignore[arg-type]
            else:
                self._rare(portion, event, received_at_us)
        self.checkpoint_lsn = portion.checkpoint_lsn
        return portion

    def _opened(self, transaction: OpenTransaction, received_at_us: int) -> None:
        """Make the transaction's row; it reaches the store with its first change or its end."""
        streamed = transaction.kind == "streamed"
        # The checkpoint is where a stored commit or prepare *ended*.
        final_lsn = transaction.final_lsn
        known = final_lsn is not None and final_lsn < self.checkpoint_lsn
        if known and transaction.kind == "prepared":
            # Prepared before the slot could send it, it comes whole just before its COMMIT
            # PREPARED: its prepare lies before our first position, and yet nobody has it.
            known = self._is_stored(transaction)
        transaction.tag = TransactionRow(
            id=0 if known else self._next_id(),
            incarnation_id=self._incarnation_id,
            received_at_us=received_at_us,
            xid=transaction.xid,
            state="streaming" if streamed else "receiving",
            streamed=streamed,
            skipped=known,
        )

    def _run(self, portion: Portion, event: ChangeRun) -> None:
        row: TransactionRow = event.transaction.tag
        if row.skipped:
            return
        row.size_bytes += event.size_bytes
        portion.runs.append((row, event.changes))
        portion.changes += len(event.changes)
        self._touch(portion, event.transaction, row)

    def _touch(self, portion: Portion, transaction: OpenTransaction, row: TransactionRow) -> None:
        """Have the row written, with what is known of it by now."""
        portion.rows[row.id] = row
        row.origin = transaction.origin
        if row.first_lsn is None and transaction.first_lsn:
            row.first_lsn = transaction.first_lsn
        if row.streamed:
            portion.open_changed = True

    def _committed(self, portion: Portion, event: TransactionCommitted) -> None:
        row: TransactionRow = event.transaction.tag
        if row.skipped or not self._ends(portion, event.end_lsn, row):
            return
        self._touch(portion, event.transaction, row)
        row.state = "committed"
        row.commit_lsn, row.end_lsn = event.commit_lsn, event.end_lsn
        row.set_commit_time(event.commit_time_us)
        portion.committed.append(row)

    def _ends(self, portion: Portion, end_lsn: int, row: TransactionRow) -> bool:
        """Move the checkpoint; False (and the row discarded) where it covers this end already."""
        if end_lsn <= portion.checkpoint_lsn:
            row.state = "discarded"
            if row.stored or row.id in portion.rows:
                portion.rows[row.id] = row
            return False
        portion.checkpoint_lsn = end_lsn
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
        elif isinstance(event, PreparedCommitted):
            if event.end_lsn > portion.checkpoint_lsn:
                portion.checkpoint_lsn = event.end_lsn
                portion.committed.append(event)
                portion.open_changed = True
        elif isinstance(event, PreparedRolledBack):
            if event.rollback_end_lsn > portion.checkpoint_lsn:
                portion.checkpoint_lsn = event.rollback_end_lsn
                portion.rolled_back.append(event)
                portion.open_changed = True
        elif isinstance(event, StandaloneMessage):
            self._message(portion, event, received_at_us)
        # UnknownAborted: nothing was kept of it, so there is nothing to undo.

    def _subtransaction_aborted(self, portion: Portion, event: SubtransactionAborted) -> None:
        row: TransactionRow = event.transaction.tag
        portion.tombstones.append(
            Tombstone(row.id, event.subxid, event.abort_lsn, event.abort_time_us)
        )
        self._touch(portion, event.transaction, row)

    def _aborted(self, portion: Portion, event: TransactionAborted) -> None:
        row: TransactionRow = event.transaction.tag
        self._touch(portion, event.transaction, row)
        row.state = "aborted"
        row.commit_lsn = event.abort_lsn
        row.ended_at_us = event.abort_time_us

    def _prepared(self, portion: Portion, event: TransactionPrepared) -> None:
        row: TransactionRow = event.transaction.tag
        # What is not skipped though the checkpoint lies beyond it is of such a late transaction.
        late = event.transaction.kind == "prepared" and event.end_lsn <= portion.checkpoint_lsn
        if row.skipped or not (late or self._ends(portion, event.end_lsn, row)):
            return
        self._touch(portion, event.transaction, row)
        row.state, row.gid = "prepared", event.gid
        portion.prepared[event.gid, event.transaction.xid] = row
        row.prepare_lsn, row.prepared_at_us = event.prepare_lsn, event.prepare_time_us
        portion.open_changed = True

    def _message(self, portion: Portion, event: StandaloneMessage, received_at_us: int) -> None:
        """A message outside any transaction; its LSN is where its WAL record *ends*."""
        lsn = event.message.lsn
        if lsn <= portion.checkpoint_lsn:
            return
        portion.checkpoint_lsn = lsn
        row = TransactionRow(
            id=self._next_id(),
            incarnation_id=self._incarnation_id,
            received_at_us=received_at_us,
            xid=None,
            state="message",
            first_lsn=event.lsn or lsn,
            messages=1,
            size_bytes=len(event.message.content),
        )
        note_actor(row, event.message)
        portion.rows[row.id] = row
        portion.changes += 1
        portion.committed.append(MessageRow(row, lsn, message_document(event.message)))
