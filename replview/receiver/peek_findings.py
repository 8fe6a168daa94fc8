"""Findings of a peek into a slot are transactions, sizes, tables, and the first changes as JSON."""

import base64
import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from decoder.events import (
    ChangeEvent,
    ChangeRun,
    Event,
    OpenTransaction,
    PreparedCommitted,
    PreparedRolledBack,
    StandaloneMessage,
    SubtransactionAborted,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
    TransactionPrepared,
    Truncation,
)
from decoder.messages import LogicalMessage, NoValue, RelationMessage, Undecoded, Value
from decoder.scalars import LSN, datetime_from_us, lsn_text
from replview.receiver.actors import note_actor, note_neighbours, settle_actors, take_claims_back
from replview.store.write.copy_rows import CopiedTransaction

#: A longer value is cut, with a note of its length.
VALUE_CHARACTERS = 500
_OP_NAMES = {"I": "insert", "U": "update", "D": "delete", "T": "truncate", "M": "message"}
#: Number of transactions that are listed, and of changes that are shown.
LISTED, SHOWN = 100, 50
_OPERATIONS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates"}


def change_record(transaction: OpenTransaction, change: ChangeEvent) -> dict[str, object]:
    """Return one change of a transaction in the JSON form of a change; what is unknown is null."""
    commit_us = transaction.commit_time_us
    record = _record(change.op)
    record |= {
        "xid": transaction.xid,
        "gid": transaction.gid,
        "commit_lsn": lsn_text(transaction.final_lsn or None),
        "commit_time": utc_text(None if commit_us is None else datetime_from_us(commit_us)),
        "origin": transaction.origin,
        "seq": change.seq,
        "lsn": lsn_text(change.lsn or None),
        "subxid": change.subxid,
    }
    if isinstance(change.new, LogicalMessage):
        return record | _message(change.new)
    assert change.relation is not None
    record |= {
        "schema": change.relation.namespace,
        "table": change.relation.name,
        "relation_oid": change.relation.oid or None,
    }
    if isinstance(change.new, Truncation):
        return record | change.new._asdict()
    names = change.relation.names
    sent = change.old if change.op == "D" else change.new
    return record | {
        "key": _key(change.relation, change.old, change.new),
        "old": _row(names, change.old),
        "new": _row(names, change.new),
        "not_sent": [
            name
            for name, value in zip(names, sent or [], strict=bool(sent))
            if isinstance(value, NoValue)
        ],
    }


def utc_text(moment: dt.datetime | None) -> str | None:
    """Return a time as ``2026-11-20T07:57:11.369827Z``."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _record(op: str) -> dict[str, object]:
    names = (
        "slot incarnation commit_seq xid gid commit_lsn end_lsn commit_time origin actor "
        "actor_grade context seq lsn subxid"
    )
    record: dict[str, Any] = dict.fromkeys(names.split())
    record["op"] = _OP_NAMES[op]
    record |= dict.fromkeys(["schema", "table", "relation_oid", "version", "key", "old", "new"])
    return record | {"not_sent": []}


def _message(message: LogicalMessage) -> dict[str, object]:
    fields: dict[str, Any] = {"prefix": message.prefix}
    try:
        fields["content"] = _cut(message.content.decode())
    except UnicodeDecodeError:
        fields["content_base64"] = _cut(base64.b64encode(message.content).decode())
    return fields | {"transactional": message.transactional}


def _key(relation: RelationMessage, old: Any, new: Any) -> dict[str, Any] | None:
    """Return the key columns, before the change if they were sent; None where the key is unknown.

    Under the replica identity FULL the stream does not say which columns are the key.
    """
    if relation.replica_identity in ("FULL", "NOTHING") or not relation.key_indexes:
        return None
    key = {}
    for index in relation.key_indexes:
        value = next((r[index] for r in (old, new) if r and not isinstance(r[index], NoValue)), new)
        if value is new:
            return None
        key[relation.names[index]] = _value(value)
    return key


def _row(names: tuple[str, ...], values: Any) -> dict[str, Any] | None:
    if values is None:
        return None
    pairs = zip(names, values, strict=True)
    return {name: _value(value) for name, value in pairs if not isinstance(value, NoValue)}


def _value(value: Value) -> Any:
    if isinstance(value, Undecoded):
        name = "$binary" if value.format == "binary" else "$bytes"
        return {name: _cut(base64.b64encode(value.raw).decode()), "$type": value.type_oid}
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    if len(text) <= VALUE_CHARACTERS:
        return text
    return f"{text[:VALUE_CHARACTERS]}… ({len(text):,} characters)"


class _Naming(CopiedTransaction):
    """The actors of one transaction, derived from its messages just as a receiver derives them."""

    def __init__(self, xid: int | None = None) -> None:
        super().__init__(id=0, incarnation_id=0, received_at_us=0, xid=xid, state="")

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Return who made the changes: each ``actor`` and ``grade``, from the change ``seq`` on."""
        if self.claims is not None:
            settle_actors(self)
        return self.actors or [{"seq": 0, "actor": self.actor, "grade": self.actor_grade}]

    def name(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a change with its actor added."""
        part = next(part for part in reversed(self.parts) if part["seq"] <= record["seq"])
        return record | {"actor": part["actor"], "actor_grade": part["grade"]}


@dataclass(slots=True, eq=False)
class WaitingTransaction:
    """A transaction that waits in the slot."""

    xid: int | None
    gid: str | None
    #: ``streaming``, ``prepared``, ``committed`` or ``rolled back``; empty when aborted.
    state: str
    commit_lsn: int | None = None
    commit_time_us: int | None = None
    changes: int = 0
    size_bytes: int = 0
    #: Table → counts by operation.
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Subtransaction → table and operation → changes, to subtract the ones of an aborted one.
    subxids: dict[int, dict[tuple[str, str], int]] = field(default_factory=dict)
    naming: _Naming = field(default_factory=_Naming)


class Findings:
    """Counts and samples of the events that a peek has read."""

    def __init__(
        self, from_lsn: LSN, until_lsn: LSN, unknown: list[str], *, complete: bool = False
    ) -> None:
        self.complete = complete
        self.stopped_by: str | None = None
        self.changes = 0
        self._from_lsn, self._until_lsn = from_lsn, until_lsn
        self._unknown = unknown
        self._waiting: list[WaitingTransaction] = []
        #: Changes to show, with their transaction: those of an aborted one are removed again.
        self._shown: list[tuple[OpenTransaction | None, ChangeEvent | None, dict[str, Any]]] = []

    def take(self, events: Iterable[Event], max_changes: int) -> bool:
        """Count events; return True once ``max_changes`` changes are counted."""
        for event in events:
            if isinstance(event, ChangeRun):
                remaining = max_changes - self.changes
                self._run(event, remaining)
                if len(event.changes) >= remaining:
                    return True
            elif isinstance(event, StandaloneMessage):
                self.changes += 1
                if len(self._shown) < SHOWN:
                    message = event.message
                    record = _record("M") | {"seq": 1, "lsn": lsn_text(message.lsn or None)}
                    note_actor(naming := _Naming(), message, 1)
                    self._shown.append((None, None, naming.name(record | _message(message))))
            else:
                self._ended(event)
        return self.changes >= max_changes

    def end(self, open_streams: Iterable[OpenTransaction]) -> None:
        """Mark transactions as open on the source that are still open at the end of the peek."""
        for transaction in open_streams:
            waiting: WaitingTransaction | None = transaction.tag
            if waiting is not None:
                waiting.state = "streaming"

    def stop(self, bound: str) -> None:
        """Record that the peek was cut off by its limit in ``changes`` or in ``seconds``."""
        self.stopped_by, self.complete = bound, False

    def result(self, plugin: str, *, seconds: float) -> dict[str, object]:
        """Return the findings as the JSON document of a peek."""
        waiting = [transaction for transaction in self._waiting if transaction.state]
        committed = [transaction for transaction in waiting if transaction.state == "committed"]
        times = [
            transaction.commit_time_us
            for transaction in committed
            if transaction.commit_time_us is not None
        ]
        tables: dict[str, dict[str, int]] = {}
        for transaction in waiting:
            for name, counts in transaction.tables.items():
                total = tables.setdefault(name, dict.fromkeys(_OPERATIONS.values(), 0))
                for operation, number in counts.items():
                    total[operation] += number
        return {
            "plugin": plugin,
            "from_lsn": str(self._from_lsn),
            "until_lsn": str(self._until_lsn),
            "complete": self.complete,
            "stopped_by": self.stopped_by,
            "seconds": round(seconds, 3),
            "changes": self.changes,
            "transactions": len(committed),
            "open_transactions": sum(transaction.state == "streaming" for transaction in waiting),
            "prepared": sum(transaction.state == "prepared" for transaction in waiting),
            "bytes": sum(transaction.size_bytes for transaction in waiting),
            "oldest_commit": utc_text(datetime_from_us(min(times)) if times else None),
            "newest_commit": utc_text(datetime_from_us(max(times)) if times else None),
            "tables": [{"table": name, **counts} for name, counts in sorted(tables.items())],
            "listed": [_listed(transaction) for transaction in waiting[:LISTED]],
            "first_changes": [
                record if transaction is None else transaction.tag.naming.name(record)
                for transaction, _, record in self._shown
            ],
            "unknown": self._unknown,
        }

    def _run(self, event: ChangeRun, remaining: int) -> None:
        transaction, changes, size_bytes = event
        waiting = self._of(transaction)
        # A run that is cut at the limit counts with a proportional share of its bytes.
        waiting.size_bytes += size_bytes * min(remaining, len(changes)) // len(changes)
        counted, naming = changes[:remaining], waiting.naming
        for change in counted:
            self.changes += 1
            waiting.changes += 1
            if change.relation is not None:
                self._count(waiting, change)
            elif isinstance(change.new, LogicalMessage):
                note_actor(naming, change.new, change.seq)
            if len(self._shown) < SHOWN:
                record = change_record(transaction, change)
                self._shown.append((transaction, change, record))
        note_neighbours(naming, counted)
        naming.last_seq = counted[-1].seq

    def _count(self, waiting: WaitingTransaction, change: ChangeEvent) -> None:
        assert change.relation is not None
        name = f"{change.relation.namespace}.{change.relation.name}"
        operation = _OPERATIONS[change.op]
        counts = waiting.tables.setdefault(name, dict.fromkeys(_OPERATIONS.values(), 0))
        counts[operation] += 1
        if change.subxid is not None:
            subxid_counts = waiting.subxids.setdefault(change.subxid, {})
            subxid_counts[name, operation] = subxid_counts.get((name, operation), 0) + 1

    def _of(self, transaction: OpenTransaction) -> WaitingTransaction:
        waiting: WaitingTransaction | None = transaction.tag
        if waiting is None:
            # A streamed transaction is open until its end is read; others are sent after they
            # ended.
            state = {"streamed": "streaming", "prepared": "prepared"}.get(
                transaction.kind, "committed"
            )
            waiting = transaction.tag = WaitingTransaction(
                transaction.xid, transaction.gid, state, transaction.final_lsn,
                transaction.commit_time_us,
            )  # fmt: skip
            self._waiting.append(waiting)
        return waiting

    def _ended(self, event: Event) -> None:
        if isinstance(event, TransactionOpened):
            self._of(event.transaction)
        elif isinstance(event, TransactionCommitted):
            waiting = self._of(event.transaction)
            waiting.state, waiting.commit_lsn = "committed", event.commit_lsn
            waiting.commit_time_us = event.commit_time_us
        elif isinstance(event, TransactionPrepared):
            waiting = self._of(event.transaction)
            waiting.state, waiting.gid, waiting.commit_lsn = "prepared", event.gid, None
        elif isinstance(event, SubtransactionAborted):
            self._take_back(event.transaction, event.subxid)
        elif isinstance(event, TransactionAborted):
            self._take_back(event.transaction, None)
        elif isinstance(event, PreparedCommitted | PreparedRolledBack):
            self._prepared_ended(event)

    def _prepared_ended(self, event: PreparedCommitted | PreparedRolledBack) -> None:
        prepared = [
            candidate
            for candidate in self._waiting
            if candidate.gid == event.gid and candidate.state == "prepared"
        ]
        if isinstance(event, PreparedRolledBack):
            for waiting in prepared:
                waiting.state = "rolled back"
            return
        if not prepared:
            # The transaction was prepared before the slot's position: only its COMMIT PREPARED
            # waits here.
            prepared = [WaitingTransaction(event.xid, event.gid, "prepared")]
            self._waiting += prepared
        prepared[-1].state, prepared[-1].commit_lsn = "committed", event.commit_lsn
        prepared[-1].commit_time_us = event.commit_time_us

    def _take_back(self, transaction: OpenTransaction, subxid: int | None) -> None:
        """Subtract an aborted transaction, or one of its subtransactions, from the findings."""
        waiting = self._of(transaction)
        if subxid is None:
            self.changes -= waiting.changes
            waiting.state, waiting.tables = "", {}
        else:
            take_claims_back(waiting.naming, subxid, waiting.naming.last_seq)
            for (name, operation), number in waiting.subxids.pop(subxid, {}).items():
                waiting.tables[name][operation] -= number
                waiting.changes -= number
                self.changes -= number
        self._shown = [
            shown
            for shown in self._shown
            if shown[0] is not transaction
            or not (subxid is None or (shown[1] is not None and shown[1].subxid == subxid))
        ]


def _listed(transaction: WaitingTransaction) -> dict[str, object]:
    committed_at = (
        None if transaction.commit_time_us is None else datetime_from_us(transaction.commit_time_us)
    )
    return {
        "xid": transaction.xid,
        "gid": transaction.gid,
        "state": transaction.state,
        "commit_lsn": lsn_text(transaction.commit_lsn),
        "commit_time": utc_text(committed_at),
        "actors": transaction.naming.parts,
        "changes": transaction.changes,
        "bytes": transaction.size_bytes,
        "tables": sorted(transaction.tables),
    }
