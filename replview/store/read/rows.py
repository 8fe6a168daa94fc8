"""Row types that queries of the record return, and the hash by which a row's changes are found.

Within one incarnation, changes of a row took effect in the order of their commits, and those of one
transaction in the order of their LSNs. A row of a baseline (op S) holds exactly what committed
before its position: a change written before that position and committed after it comes after the
snapshot.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import xxhash

#: Condition on ``change c``: its subtransaction did not abort.
NOT_ABORTED = """NOT EXISTS (
    SELECT FROM aborted_subtransaction a
    WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)"""
#: The condition ``NOT_ABORTED``, without a lookup for the common change that has no subtransaction.
QUICKLY_NOT_ABORTED = f"(c.subxid IS NULL OR {NOT_ABORTED})"

_ENTRY = (
    "CASE WHEN t.actors IS NULL THEN t.{column} ELSE jsonb_path_query_array(t.actors,"
    " '$[*] ? (@.seq <= $seq).{key}', jsonb_build_object('seq', c.seq)) ->> -1 END"
)
#: SQL for the actor of ``change c`` of ``transaction t``, and for the grade of certainty (compare
#: ``actor_at``).
ACTOR = _ENTRY.format(column="actor", key="actor")
ACTOR_GRADE = _ENTRY.format(column="actor_grade", key="grade")
#: SQL for the actor of ``change c``; empty: unknown.
CHANGES_ACTOR = f"coalesce((SELECT {ACTOR} FROM transaction t WHERE t.id = c.transaction_id), '')"  # noqa: S608
#: A position after every commit, for a transaction that is not committed yet.
OPEN_END = (1 << 63) - 1
#: Separates the values of a key. A value may contain it, so that a hash only narrows the search.
SEPARATOR = "\x1f"
#: Replaces SQL NULL in a key, which is only possible under REPLICA IDENTITY FULL.
NULL_MARK = "\x00"

#: Place in an incarnation: LSN of the commit (of a snapshot: its position), 0 for a snapshot and 1
#: for a change of the stream (a snapshot comes before a commit at its position), LSN, seq.
RowPosition = tuple[int, int, int, int]


class QueriedSlot(Protocol):
    """The attributes of a slot that queries need."""

    pk: Any
    #: The slot's name on the source.
    name: str
    source_id: int
    #: The present incarnation; None: the slot never connected.
    incarnation_id: int | None
    #: Position up to which everything is stored.
    checkpoint_lsn: Any
    #: Time of the last stored commit.
    last_commit_time: dt.datetime | None
    #: Options with which the stream was started.
    options: Any


class QueriedRelation(Protocol):
    """The attributes of a slot's table that queries need."""

    pk: Any
    slot_id: int
    #: The names as last seen.
    schema: str
    table: str
    #: The shape in force.
    current_version_id: int | None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One incarnation of a slot: LSNs compare only within it."""

    id: int
    #: 1 for the slot's first.
    number: int
    #: The last commit_seq that was assigned.
    commit_seq: int


class ChangeRow(NamedTuple):
    """One change with the shape its table had then; an absent column was not sent."""

    transaction_id: int
    seq: int
    lsn: str
    subxid: int | None
    op: str
    old_kind: str | None
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    relation_id: int | None
    key_hash: int | None
    old_key_hash: int | None
    schema: str | None
    table: str | None
    version: int | None
    replica_identity: str | None
    #: ``[{"name", "type", "key", …}]`` in the stream's order.
    columns: list[dict[str, Any]]
    key_columns: list[str]
    #: True if its subtransaction aborted.
    aborted: bool = False
    #: True if the reader has no right on the table: values, key and columns are withheld.
    hidden: bool = False
    #: JSON lines written by the store: this change and the next ones of its transaction, each from
    #: ``,"seq"`` on. All other fields but the transaction and the first seq are empty then.
    lines: str | None = None


class TransactionRow(NamedTuple):
    """One row of ``transaction``, as the store holds it; LSNs as PostgreSQL writes them."""

    id: int
    incarnation_id: int
    commit_seq: int | None
    xid: int | None
    gid: str | None
    state: str
    streamed: bool
    first_lsn: str | None
    commit_lsn: str | None
    end_lsn: str | None
    commit_time: dt.datetime | None
    prepared_at: dt.datetime | None
    ended_at: dt.datetime | None
    origin: str | None
    actor: str | None
    actor_grade: str | None
    context: dict[str, Any] | None
    #: Actors of parts of the transaction, where not all is ``actor``'s
    #: (``store.models.history.Transaction``).
    actors: list[dict[str, Any]] | None
    inserts: int
    updates: int
    deletes: int
    truncates: int
    messages: int
    size_bytes: int
    #: ``{relation id: [inserts, updates, deletes, truncates]}``.
    relations: dict[str, list[int]]
    aborted_changes: int
    received_at: dt.datetime
    stored_at: dt.datetime | None
    #: True if the size must not be shown, since it would reveal how long hidden values are.
    size_withheld: bool = False

    @property
    def shown_size_bytes(self) -> int | None:
        """Return the size in bytes; None: it must not be shown."""
        return None if self.size_withheld else self.size_bytes

    @property
    def changes(self) -> int:
        """Return the number of changes and messages that count; of an aborted one, all."""
        return self.inserts + self.updates + self.deletes + self.truncates + self.messages

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Return the parts of the transaction, each with first ``seq``, ``actor`` and ``grade``."""
        return self.actors or [{"seq": 0, "actor": self.actor, "grade": self.actor_grade}]

    @property
    def names(self) -> list[str | None]:
        """Return the actors of all parts, the last first; None stands for an unknown one."""
        return list(dict.fromkeys(part["actor"] for part in reversed(self.parts)))

    def others(self, actor: str | None) -> list[str]:
        """Return the other actors of the transaction: ``bob``, ``carol (perhaps)``, ``unknown``."""
        sure = {part["actor"] for part in self.parts if part["grade"] != "perhaps"}
        names = [name for name in self.names if name != actor]
        return [f"{name or 'unknown'}{'' if name in sure else ' (perhaps)'}" for name in names]

    def share_of(self, actor: str | None) -> "TransactionRow":
        """Return the transaction with this actor's grade and, where known, this actor's counts."""
        parts = [part for part in self.parts if part["actor"] == actor]
        row = self._replace(actor=actor, actor_grade=parts[-1]["grade"])
        if "counts" not in parts[0]:
            return row
        inserts, updates, deletes, truncates, messages = parts[0]["counts"]
        return row._replace(
            inserts=inserts, updates=updates, deletes=deletes, truncates=truncates,
            messages=messages, relations=parts[0]["relations"],
        )  # fmt: skip

    def actor_of(self, seq: int) -> str | None:
        """Return the actor of one change; None: unknown."""
        return actor_at(self.parts, seq)

    @property
    def moment(self) -> dt.datetime:
        """Return the time that orders the transaction in history."""
        return self.commit_time or self.stored_at or self.received_at


#: The columns of ``transaction t`` that make a ``TransactionRow``.
TRANSACTION_COLUMNS = ", ".join(f"t.{name}" for name in TransactionRow._fields[:-1])


def actor_at(parts: Sequence[Mapping[str, Any]], seq: int) -> str | None:
    """Return the actor of a change (None: unknown), as ``ACTOR`` does in SQL."""
    actor: str | None = next(part["actor"] for part in reversed(parts) if part["seq"] <= seq)
    return actor


def named(actors: Sequence[str | None]) -> list[str]:
    """Return the known actors without duplicates, ordered by their last occurrence."""
    return [name for name in reversed(dict.fromkeys(reversed(actors))) if name]


@dataclass(frozen=True, slots=True)
class EventRow:
    """A line of a slot's log with its place in history."""

    id: int
    at: dt.datetime
    kind: str
    message: str
    detail: dict[str, Any]
    incarnation_id: int | None
    after_commit_seq: int


@dataclass(frozen=True, slots=True)
class RowStep:
    """One change of a row, with the facts about its transaction that order it; LSNs are numbers."""

    transaction_id: int
    seq: int
    lsn: int
    subxid: int | None
    op: str
    old_kind: str | None
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    relation_id: int
    version_id: int
    key_hash: int | None
    old_key_hash: int | None
    incarnation_id: int
    commit_seq: int | None
    xid: int | None
    gid: str | None
    state: str
    commit_lsn: int | None
    commit_time: dt.datetime | None
    actor: str | None
    actor_grade: str | None

    @property
    def place(self) -> RowPosition:
        """Return the place in the incarnation at which the change took effect."""
        commit = OPEN_END if self.commit_lsn is None else self.commit_lsn
        return commit, int(self.op != "S"), self.lsn, self.seq

    @property
    def after(self) -> dict[str, Any]:
        """Return the row after the change, as far as sent; the rest from a full old row."""
        if self.op == "D":
            return {}
        return {**self.old, **(self.new or {})} if self.old else self.new or {}

    def side(self, column: str) -> str:
        """Return which image, old or new, holds a known value of the column."""
        return "new" if self.new and column in self.new else "old"


def key_hash(values: Sequence[str | None]) -> int:
    """Return the unsigned 64-bit hash of a key's values, in the order of ``key_columns``."""
    text = SEPARATOR.join(NULL_MARK if value is None else value for value in values)
    return xxhash.xxh3_64_intdigest(text.encode())


def signed_hash(values: Sequence[str | None]) -> int:
    """Return ``key_hash`` as the signed ``bigint`` that the column holds."""
    unsigned = key_hash(values)
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned
