"""What reads of the record give: a change, a transaction, a step of a row, a line of a slot's log;
and the hash that finds a row's changes.

Within one incarnation a row's changes took effect in the order of their commits, and those of one
transaction in that of their LSNs. A baseline's row (op S) holds exactly what committed before its
position: a change written before that and committed after it comes after the snapshot.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import xxhash

#: Of ``change c``: a subtransaction's abort takes its changes away again.
NOT_ABORTED = """NOT EXISTS (
    SELECT FROM aborted_subtransaction a
    WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)"""
#: The same, sooner told: an ordinary change names no subtransaction, and is not looked up.
QUICKLY_NOT_ABORTED = f"(c.subxid IS NULL OR {NOT_ABORTED})"

_ENTRY = (
    "CASE WHEN t.actors IS NULL THEN t.{column} ELSE jsonb_path_query_array(t.actors,"
    " '$[*] ? (@.seq <= $seq).{key}', jsonb_build_object('seq', c.seq)) ->> -1 END"
)
#: Whose ``change c`` of ``transaction t`` is, and how well that is known (``actor_at``).
ACTOR = _ENTRY.format(column="actor", key="actor")
ACTOR_GRADE = _ENTRY.format(column="actor_grade", key="grade")
#: Whose ``change c`` is; empty: nobody's.
CHANGES_ACTOR = f"coalesce((SELECT {ACTOR} FROM transaction t WHERE t.id = c.transaction_id), '')"  # noqa: S608
#: After every commit: where a transaction stands that is not committed yet.
OPEN_END = (1 << 63) - 1
#: Between the values of a key; may occur in one: a hash only narrows the search.
SEPARATOR = "\x1f"
#: In place of a value that is SQL NULL (only possible where the identity is FULL).
NULL_MARK = "\x00"


class Slot(Protocol):
    """What reads ask of a slot."""

    pk: Any
    #: On the source.
    name: str
    source_id: int
    #: The present one; None: it never connected.
    incarnation_id: int | None
    #: Everything up to there is stored.
    checkpoint_lsn: Any
    #: Of the last stored commit.
    last_commit_time: dt.datetime | None
    #: What its stream was started with.
    options: Any


class Relation(Protocol):
    """What reads ask of a table of a slot."""

    pk: Any
    slot_id: int
    #: As last seen.
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
    #: The last one given out.
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
    #: Taken away again by the abort of its subtransaction.
    aborted: bool = False
    #: Whoever reads it has no right on the table: values, key and columns are withheld.
    hidden: bool = False
    #: As the store wrote them, the lines of this change and of the next ones that were read of its
    #: transaction, each from ``,"seq"`` on; then there is nothing else but where they begin.
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
    #: Whose its changes are, where not all are ``actor``'s (``models.history.Transaction``).
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
    #: What it holds is not all to be seen, so that its size is not to be told.
    size_withheld: bool = False

    @property
    def told_bytes(self) -> int | None:
        """Its size; None: not to be told."""
        return None if self.size_withheld else self.size_bytes

    @property
    def changes(self) -> int:
        """Its changes and messages that count; of one that aborted, all it had made."""
        return self.inserts + self.updates + self.deletes + self.truncates + self.messages

    @property
    def parts(self) -> list[dict[str, Any]]:
        """From which change on (``seq``) it is whose (``actor``), and its ``grade``."""
        return self.actors or [{"seq": 0, "actor": self.actor, "grade": self.actor_grade}]

    @property
    def names(self) -> list[str | None]:
        """All who have a part in it, the last one first; None: nobody named."""
        return list(dict.fromkeys(part["actor"] for part in reversed(self.parts)))

    def others(self, actor: str | None) -> list[str]:
        """Who else has a part in it: ``bob``, ``carol (perhaps)``, ``unknown``."""
        sure = {part["actor"] for part in self.parts if part["grade"] != "perhaps"}
        found = [name for name in self.names if name != actor]
        return [f"{name or 'unknown'}{'' if name in sure else ' (perhaps)'}" for name in found]

    def share_of(self, actor: str | None) -> "TransactionRow":
        """As much of it as is this actor's, where that was counted, with how well it is known."""
        mine = [part for part in self.parts if part["actor"] == actor]
        row = self._replace(actor=actor, actor_grade=mine[-1]["grade"])
        if "counts" not in mine[0]:
            return row
        inserts, updates, deletes, truncates, messages = mine[0]["counts"]
        return row._replace(
            inserts=inserts, updates=updates, deletes=deletes, truncates=truncates,
            messages=messages, relations=mine[0]["relations"],
        )  # fmt: skip

    def actor_of(self, seq: int) -> str | None:
        """Whose this change is."""
        return actor_at(self.parts, seq)

    @property
    def moment(self) -> dt.datetime:
        """The time it stands at in history."""
        return self.commit_time or self.stored_at or self.received_at


def actor_at(parts: Sequence[Mapping[str, Any]], seq: int) -> str | None:
    """Whose a change is (None: nobody's), as ``ACTOR`` says it in SQL."""
    actor: str | None = next(part["actor"] for part in reversed(parts) if part["seq"] <= seq)
    return actor


def named(actors: Sequence[str | None]) -> list[str]:
    """All that are named, each where it stands last."""
    return [name for name in reversed(dict.fromkeys(reversed(actors))) if name]


#: What is selected of ``transaction t`` for one.
TRANSACTION_COLUMNS = ", ".join(f"t.{name}" for name in TransactionRow._fields[:-1])


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


#: Place in an incarnation: the commit (for a snapshot its position), whether it is a change of the
#: stream (a snapshot comes before the commit that begins where it stands), LSN, seq.
Place = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a row with what must be known of its transaction; LSNs as numbers."""

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
    def place(self) -> Place:
        """Where in its incarnation it took effect."""
        commit = OPEN_END if self.commit_lsn is None else self.commit_lsn
        return commit, int(self.op != "S"), self.lsn, self.seq

    @property
    def after(self) -> dict[str, Any]:
        """The row after it as far as it tells, with columns of a whole old row not sent again."""
        if self.op == "D":
            return {}
        return {**self.old, **(self.new or {})} if self.old else self.new or {}

    def side(self, column: str) -> str:
        """Which of its images a known value is in."""
        return "new" if self.new and column in self.new else "old"


def key_hash(values: Sequence[str | None]) -> int:
    """The unsigned 64-bit hash of a key's values, in the order of ``key_columns``."""
    text = SEPARATOR.join(NULL_MARK if value is None else value for value in values)
    return xxhash.xxh3_64_intdigest(text.encode())


def signed_hash(values: Sequence[str | None]) -> int:
    """``key_hash`` as the signed ``bigint`` the column holds."""
    unsigned = key_hash(values)
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned
