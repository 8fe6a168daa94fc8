"""What one store transaction writes: a portion of the stream, sorted."""

from collections import deque
from dataclasses import dataclass, field

from decoder.events import Change, PreparedCommitted, PreparedRolledBack, RelationSeen, TypeSeen
from replview.store.write.copy_rows import TransactionRow


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the slot's log; never a value of the source."""

    kind: str
    message: str
    lsn: int | None = None
    detail: dict[str, object] = field(default_factory=dict)


def left_out(row: TransactionRow, lsn: int | None) -> Note:
    """Return the log's line for a transaction, or a message outside any, that was left out because
    somebody decided so.
    """
    what = "A message" if row.xid is None else f"Transaction {row.xid}"
    by = (row.context or {}).get("$skipped", {}).get("by") or "somebody"
    return Note(
        "skipped",
        f"{what} was left out of the record, as {by} decided.",
        lsn,
        {"quarantine": row.left_out, "transaction": row.id},
    )


def resent(transactions: int, lsn: int) -> Note:
    """Return the log's line for a server that begins before our checkpoint, as after a restart."""
    many = "transaction" if transactions == 1 else "transactions"
    return Note(
        "resent",
        f"The server sent {transactions:,} {many} again that the record has already: not stored "
        "twice.",
        lsn,
        {"transactions": transactions},
    )


def wrapped(lsn: int | None) -> Note:
    """Return the log's line for a source whose 32-bit transaction ids have wrapped around."""
    return Note(
        "wraparound",
        "The source's transaction ids (32 bits) began anew: an xid alone names no transaction "
        "across this point.",
        lsn,
    )


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An aborted subtransaction of a stored transaction; its own xid: the whole of it."""

    transaction_id: int
    subxid: int
    abort_lsn: int | None
    abort_time_us: int | None
    #: The transaction's last change that came before the abort.
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class Transition:
    """A streamed or two-phase transaction is in another state now."""

    transaction_id: int
    state: str
    #: Where in the WAL; None where the stream did not say.
    lsn: int | None
    #: The source's clock: microseconds since 2000-01-01 UTC; None where it did not say.
    time_us: int | None


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
    #: Of those, by transaction, of savepoints whose claims are to be taken back.
    savepoints: dict[int, deque[Tombstone]] = field(default_factory=dict)
    #: Everything that ends at or before this is stored once the portion is.
    checkpoint_lsn: int = 0
    changes: int = 0
    #: Changes stored, here or before, of which this portion says that they were rolled back.
    rolled_back_changes: int = 0
    #: Transactions that the store has, and of which it now keeps nothing.
    discarded: list[TransactionRow] = field(default_factory=list)
    #: Sum of the lengths of their messages.
    size_bytes: int = 0
    #: Streamed and two-phase transactions that went from one state to another, in order.
    transitions: list[Transition] = field(default_factory=list)
    #: What is to be written into the slot's log with it.
    notes: list[Note] = field(default_factory=list)
    #: Decisions to leave something out that had their effect here: ``quarantine`` ids.
    settled: list[int] = field(default_factory=list)
    #: A streamed or prepared transaction began, grew or ended.
    open_changed: bool = False

    def discard(self, row: TransactionRow) -> None:
        """Have a transaction's row discarded, if it has been stored already."""
        row.state = "discarded"
        if row.stored or row.id in self.rows:
            self.rows[row.id] = row
            self.discarded.append(row)

    @property
    def last_commit_time_us(self) -> int | None:
        """The commit time of the last transaction that ends here."""
        for entry in reversed(self.committed):
            if not isinstance(entry, MessageRow) and entry.commit_time_us is not None:
                return entry.commit_time_us
        return None
