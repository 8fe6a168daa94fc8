"""A portion is the part of the stream that one store transaction writes, sorted by kind."""

from collections import deque
from dataclasses import dataclass, field

from decoder.events import (
    ChangeEvent,
    PreparedCommitted,
    PreparedRolledBack,
    RelationSeen,
    TypeSeen,
)
from replview.store.write.copy_rows import CopiedTransaction


@dataclass(frozen=True, slots=True)
class SlotLogNote:
    """A line for the slot's log; never a value of the source."""

    kind: str
    message: str
    lsn: int | None = None
    detail: dict[str, object] = field(default_factory=dict)


def left_out(row: CopiedTransaction, lsn: int | None) -> SlotLogNote:
    """Return the log line for a transaction or message that was left out by somebody's decision."""
    subject = "A message" if row.xid is None else f"Transaction {row.xid}"
    account = (row.context or {}).get("$skipped", {}).get("by") or "a user"
    return SlotLogNote(
        "skipped",
        f"{subject} was skipped, as {account} decided: its changes were not stored.",
        lsn,
        {"quarantine": row.left_out, "transaction": row.id},
    )


def resent(transactions: int, lsn: int) -> SlotLogNote:
    """Return the log line for a server that starts before the checkpoint, as after a restart."""
    noun = "transaction" if transactions == 1 else "transactions"
    return SlotLogNote(
        "resent",
        f"The server sent {transactions:,} {noun} again that the record has already: not stored "
        "twice.",
        lsn,
        {"transactions": transactions},
    )


def wrapped(lsn: int | None) -> SlotLogNote:
    """Return the log line for a source whose 32-bit transaction ids have wrapped around."""
    return SlotLogNote(
        "wraparound",
        "The source's transaction IDs (32 bits) wrapped around: from here on, a transaction can "
        "have the same xid as an earlier one.",
        lsn,
    )


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An aborted subtransaction of a stored transaction, or (with its own xid) all of that."""

    transaction_id: int
    subxid: int
    abort_lsn: int | None
    abort_time_us: int | None
    #: Number of the transaction's last change before the abort.
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class StateTransition:
    """A streamed or two-phase transaction has changed its state."""

    transaction_id: int
    state: str
    #: Position in the WAL; None where the stream does not contain it.
    lsn: int | None
    #: The source's clock: microseconds since 2000-01-01 UTC; None where the stream does not contain
    #: it.
    time_us: int | None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A non-transactional message: it has a row of its own, with one change."""

    row: CopiedTransaction
    lsn: int
    document: dict[str, object]


#: Anything that gets a commit_seq.
Committed = CopiedTransaction | PreparedCommitted | MessageRow


@dataclass(slots=True)
class Portion:
    """The part of the stream that one store transaction writes."""

    relations: list[RelationSeen] = field(default_factory=list)
    types: list[TypeSeen] = field(default_factory=list)
    runs: list[tuple[CopiedTransaction, list[ChangeEvent]]] = field(default_factory=list)
    #: Every transaction that changed, in order of its first change.
    rows: dict[int, CopiedTransaction] = field(default_factory=dict)
    committed: list[Committed] = field(default_factory=list)
    rolled_back: list[PreparedRolledBack] = field(default_factory=list)
    #: Transactions that this portion prepares, by gid and xid: a gid can be reused at once.
    prepared: dict[tuple[str, int], CopiedTransaction] = field(default_factory=dict)
    tombstones: list[Tombstone] = field(default_factory=list)
    #: Tombstones of savepoints by transaction, until the claims in them are removed.
    savepoints: dict[int, deque[Tombstone]] = field(default_factory=dict)
    #: Position up to which everything is stored once the portion is.
    checkpoint_lsn: int = 0
    changes: int = 0
    #: Number of changes, stored now or before, that this portion reports as rolled back.
    rolled_back_changes: int = 0
    #: Transactions whose stored changes are discarded.
    discarded: list[CopiedTransaction] = field(default_factory=list)
    #: Sum of the lengths of the changes' messages.
    size_bytes: int = 0
    #: State changes of streamed and two-phase transactions, in order.
    transitions: list[StateTransition] = field(default_factory=list)
    #: Lines for the slot's log.
    notes: list[SlotLogNote] = field(default_factory=list)
    #: Decisions to leave something out that this portion carries out: ``quarantine`` ids.
    settled: list[int] = field(default_factory=list)
    #: True when a streamed or prepared transaction began, grew or ended.
    open_changed: bool = False

    def discard(self, row: CopiedTransaction) -> None:
        """Mark a transaction's row as discarded, if it has been stored already."""
        row.state = "discarded"
        if row.stored or row.id in self.rows:
            self.rows[row.id] = row
            self.discarded.append(row)

    @property
    def last_commit_time_us(self) -> int | None:
        """Return the commit time of the last transaction that ends in this portion, or None."""
        for entry in reversed(self.committed):
            if not isinstance(entry, MessageRow) and entry.commit_time_us is not None:
                return entry.commit_time_us
        return None
