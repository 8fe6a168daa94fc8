"""The events that an assembler returns: transactions opening, changing and ending.

All of them but ``OpenTransaction`` are immutable. Events that every transaction makes are
named tuples, which take half the time of a frozen dataclass.

Times are microseconds since 2000-01-01 UTC, possibly ±infinity. A field without a
comment that may be ``None`` is ``None`` where an output plugin other than pgoutput does
not send it (see ``test_decoding`` and ``wal2json``).
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from decoder.messages import LogicalMessage, OldKind, RelationMessage, Type, Value
from decoder.scalars import LSN, XID


@dataclass(slots=True, eq=False, repr=False)
class OpenTransaction:
    """A transaction, shared by all its events; mutable, compared by identity.

    A plain or prepared one is complete before it is sent. A streamed one is
    still in progress: all or part of it may still abort.
    """

    #: The top-level transaction id.
    xid: XID
    kind: Literal["plain", "prepared", "streamed"]
    #: The position of the commit or prepare record; ``None`` for a streamed one.
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
    #: The commit position on the origin; ``None`` where the server does not know it.
    origin_lsn: LSN | None = None
    #: The ``seq`` of its last change so far; 0 before the first.
    seq: int = 0
    #: Not used by the decoder: free for the caller.
    tag: Any = None

    def __repr__(self) -> str:
        gid = "" if self.gid is None else f" gid={self.gid!r}"
        return f"<OpenTransaction {self.kind} xid={self.xid}{gid} seq={self.seq}>"


class Truncation(NamedTuple):
    """The options of a TRUNCATE; ``None`` where the output plugin does not send them."""

    cascade: bool | None
    restart_identity: bool | None


class ChangeEvent(NamedTuple):
    """A change within one transaction. ``(transaction, seq)`` identifies it; an LSN does not."""

    #: Its number in the transaction, from 1, in order of arrival, never used twice.
    seq: int
    #: The WAL position; 0 where the server sent none. All rows of a COPY share one.
    lsn: int
    #: The subtransaction; ``None`` where it is unknown or is the top-level transaction.
    subxid: int | None
    #: The shape in force; ``None`` for a message.
    relation: RelationMessage | None
    #: Insert, update, delete, truncate (one change per table), message.
    op: Literal["I", "U", "D", "T", "M"]
    #: ``K`` if ``old`` is the key, ``O`` if it is the whole row.
    old_kind: OldKind | None
    #: The old row in column order.
    old: list[Value] | None
    #: The new row in column order, or the truncation, or the message.
    new: list[Value] | Truncation | LogicalMessage | None


class TransactionOpened(NamedTuple):
    """A transaction's first message arrived."""

    transaction: OpenTransaction


class ChangeRun(NamedTuple):
    """Consecutive changes of one transaction; at least one."""

    transaction: OpenTransaction
    changes: list[ChangeEvent]
    #: The total length of their messages, as the output plugin wrote them.
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RelationSeen:
    """A Relation message arrived, before the changes that use it."""

    #: The relation now in force, to which the changes after it refer.
    relation: RelationMessage
    #: 0/0 in a live stream, where a Relation has no position.
    lsn: LSN
    #: The transaction or subtransaction that sent it; ``None`` outside any.
    xid: XID | None
    transaction: OpenTransaction | None
    #: True when it is new, or differs from the shape last seen for its oid.
    changed: bool


@dataclass(frozen=True, slots=True)
class TypeSeen:
    """A Type message arrived."""

    type: Type
    transaction: OpenTransaction | None


@dataclass(frozen=True, slots=True)
class SubtransactionAborted:
    """A subtransaction of a streamed transaction rolled back: drop its changes, by ``subxid``.

    There may be no such change, if the subtransaction touched nothing published.
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
    """A prepared or streamed transaction is complete and waits for its COMMIT or ROLLBACK."""

    transaction: OpenTransaction
    gid: str
    prepare_lsn: LSN | None
    end_lsn: LSN
    prepare_time_us: int | None


@dataclass(frozen=True, slots=True)
class PreparedCommitted:
    """COMMIT PREPARED was executed, perhaps in a later session than the prepare."""

    gid: str
    xid: XID
    commit_lsn: LSN | None
    end_lsn: LSN
    commit_time_us: int | None


@dataclass(frozen=True, slots=True)
class PreparedRolledBack:
    """ROLLBACK PREPARED was executed, perhaps for a transaction that was never sent."""

    gid: str
    xid: XID
    #: The *end* of the PREPARE record.
    prepare_end_lsn: LSN | None
    rollback_end_lsn: LSN
    prepare_time_us: int | None
    rollback_time_us: int | None


@dataclass(frozen=True, slots=True)
class StandaloneMessage:
    """A message that is not transactional arrived: it belongs to no transaction."""

    message: LogicalMessage
    lsn: LSN


@dataclass(frozen=True, slots=True)
class UnknownAborted:
    """A transaction that was never seen aborted. There is nothing to undo."""

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
