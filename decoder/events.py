"""The events that an assembler gives: transactions opening, changing and ending.

All of it but ``OpenTransaction`` is immutable. What every transaction makes is
a named tuple, which costs half of what a frozen dataclass does.

Times are microseconds since 2000-01-01 UTC, possibly ±infinity. Where a field
may be ``None`` without saying why, other output plugins than pgoutput do not
tell it (see ``test_decoding`` and ``wal2json``).
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from decoder.messages import LogicalMessage, OldKind, Relation, Type, Value
from decoder.scalars import LSN, XID


@dataclass(slots=True, eq=False, repr=False)
class OpenTransaction:
    """One transaction, shared by all its events; mutable, compared by identity.

    A plain or prepared one is complete before it is sent. A streamed one is
    still in progress: it may yet abort, in part or whole.
    """

    #: The top-level transaction id.
    xid: XID
    kind: Literal["plain", "prepared", "streamed"]
    #: Where its commit or prepare record is; ``None`` for a streamed one.
    final_lsn: LSN | None = None
    #: A plain transaction's commit time, known from its begin.
    commit_time_us: int | None = None
    #: Set for a prepared transaction, and for a streamed one once it is prepared.
    gid: str | None = None
    #: The first WAL position the server gave for anything in it.
    first_lsn: LSN | None = None
    prepare_lsn: LSN | None = None
    #: The replication origin's name; known only after the transaction opened.
    origin: str | None = None
    #: Its commit position at its origin; ``None`` where the server does not know.
    origin_lsn: LSN | None = None
    #: The ordinal of the last change given out.
    seq: int = 0
    #: Free for the caller.
    tag: Any = None

    def __repr__(self) -> str:
        gid = "" if self.gid is None else f" gid={self.gid!r}"
        return f"<OpenTransaction {self.kind} xid={self.xid}{gid} seq={self.seq}>"


class Truncation(NamedTuple):
    """How a table was emptied; ``None`` where the output plugin does not tell."""

    cascade: bool | None
    restart_identity: bool | None


class Change(NamedTuple):
    """One change of one transaction. ``(transaction, seq)`` identifies it; an LSN does not."""

    #: From 1 in each transaction, in order of arrival, never used twice.
    seq: int
    #: Where in the WAL; 0 where the server did not say. All rows of a COPY share one.
    lsn: int
    #: The subtransaction, where it is known and not the top-level transaction.
    subxid: int | None
    #: The shape in force; ``None`` for a message.
    relation: Relation | None
    #: Insert, update, delete, truncate (one change per table), message.
    op: Literal["I", "U", "D", "T", "M"]
    #: Whether ``old`` is the key or the whole row.
    old_kind: OldKind | None
    #: In column order.
    old: list[Value] | None
    #: In column order; what was done, for a truncation or a message.
    new: list[Value] | Truncation | LogicalMessage | None


class TransactionOpened(NamedTuple):
    """A transaction's first message arrived."""

    transaction: OpenTransaction


class ChangeRun(NamedTuple):
    """Consecutive changes of one transaction; at least one."""

    transaction: OpenTransaction
    changes: list[Change]
    #: The length of their messages together, as the output plugin wrote them.
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RelationSeen:
    """A Relation message arrived, before the changes that use it."""

    #: The relation now in force, which the changes after it name.
    relation: Relation
    #: 0/0 in a live stream, where a Relation has no position.
    lsn: LSN
    #: The (sub)transaction it came in; ``None`` outside any.
    xid: XID | None
    transaction: OpenTransaction | None
    #: It is new, or differs from the shape last seen for its oid.
    changed: bool


@dataclass(frozen=True, slots=True)
class TypeSeen:
    """A Type message arrived."""

    type: Type
    transaction: OpenTransaction | None


@dataclass(frozen=True, slots=True)
class SubtransactionAborted:
    """A part of a streamed transaction rolled back: all its changes with this ``subxid``.

    There may be none: it may have touched nothing published.
    """

    transaction: OpenTransaction
    subxid: XID
    #: Known only under ``streaming=parallel``, as is the time.
    abort_lsn: LSN | None
    abort_time_us: int | None


class TransactionCommitted(NamedTuple):
    """A plain or streamed transaction is complete. Confirm ``end_lsn``."""

    transaction: OpenTransaction
    commit_lsn: LSN | None
    end_lsn: LSN
    commit_time_us: int | None


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """A streamed transaction rolled back whole."""

    transaction: OpenTransaction
    #: Known only under ``streaming=parallel``, as is the time.
    abort_lsn: LSN | None
    abort_time_us: int | None


@dataclass(frozen=True, slots=True)
class TransactionPrepared:
    """A prepared or streamed transaction is complete and waits for its end."""

    transaction: OpenTransaction
    gid: str
    prepare_lsn: LSN | None
    end_lsn: LSN
    prepare_time_us: int | None


@dataclass(frozen=True, slots=True)
class PreparedCommitted:
    """COMMIT PREPARED, perhaps in a later session than the prepare."""

    gid: str
    xid: XID
    commit_lsn: LSN | None
    end_lsn: LSN
    commit_time_us: int | None


@dataclass(frozen=True, slots=True)
class PreparedRolledBack:
    """ROLLBACK PREPARED, perhaps of a transaction that was never sent."""

    gid: str
    xid: XID
    #: The *end* of the PREPARE record.
    prepare_end_lsn: LSN | None
    rollback_end_lsn: LSN
    prepare_time_us: int | None
    rollback_time_us: int | None


@dataclass(frozen=True, slots=True)
class StandaloneMessage:
    """A message that is not transactional: it belongs to nothing."""

    message: LogicalMessage
    lsn: LSN


@dataclass(frozen=True, slots=True)
class UnknownAborted:
    """An abort of a transaction never seen. There is nothing to undo."""

    xid: XID
    subxid: XID
    abort_lsn: LSN | None
    abort_time_us: int | None


Event: TypeAlias = (
    TransactionOpened
    | ChangeRun
    | RelationSeen
    | TypeSeen
    | SubtransactionAborted
    | TransactionCommitted
    | TransactionAborted
    | TransactionPrepared
    | PreparedCommitted
    | PreparedRolledBack
    | StandaloneMessage
    | UnknownAborted
)
