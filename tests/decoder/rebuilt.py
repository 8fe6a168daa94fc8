"""Rebuilds a stream's committed transactions, however they were sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from decoder.events import (
    ChangeEvent,
    ChangeRun,
    Event,
    OpenTransaction,
    PreparedCommitted,
    PreparedRolledBack,
    SubtransactionAborted,
    TransactionAborted,
    TransactionCommitted,
    TransactionPrepared,
    Truncation,
)
from decoder.messages import LogicalMessage


@dataclass
class Rebuilt:
    """Transactions by xid, in commit order; those without changes left out."""

    committed: dict[int, list[Any]] = field(default_factory=dict)
    _open: dict[OpenTransaction, list[ChangeEvent]] = field(default_factory=dict)
    _prepared: dict[tuple[str, int], list[ChangeEvent]] = field(default_factory=dict)

    def take(self, event: Event, *, messages: bool) -> None:
        match event:
            case ChangeRun():
                self._open.setdefault(event.transaction, []).extend(event.changes)
            case SubtransactionAborted():
                kept = self._open.setdefault(event.transaction, [])
                kept[:] = [change for change in kept if change.subxid != event.subxid]
            case TransactionAborted():
                self._open.pop(event.transaction, None)
            case TransactionPrepared():
                changes = self._open.pop(event.transaction, [])
                self._prepared[event.gid, event.transaction.xid] = changes
            case PreparedRolledBack():
                self._prepared.pop((event.gid, event.xid), None)
            case PreparedCommitted():
                self._commit(event.xid, self._prepared.pop((event.gid, event.xid), []), messages)
            case TransactionCommitted():
                changes = self._open.pop(event.transaction, [])
                self._commit(event.transaction.xid, changes, messages)

    def _commit(self, xid: int, changes: list[ChangeEvent], messages: bool) -> None:
        shown = [essence(change) for change in changes if messages or change.op != "M"]
        if shown:
            assert xid not in self.committed
            self.committed[xid] = shown


def rebuild(events: Sequence[Event], *, messages: bool = True) -> dict[int, list[Any]]:
    """``messages=False`` leaves out transactional messages."""
    rebuilt = Rebuilt()
    for event in events:
        rebuilt.take(event, messages=messages)
    return rebuilt.committed


def essence(change: ChangeEvent) -> tuple[Any, ...]:
    """Return a change's content without what differs between two sessions' streams."""
    if isinstance(change.new, LogicalMessage):
        return ("M", change.new.prefix, change.new.content)
    assert change.relation is not None
    table = (change.relation.namespace, change.relation.name, change.relation.names)
    new = change.new if isinstance(change.new, Truncation) else tuple(change.new or ())
    return (table, change.op, change.old_kind, tuple(change.old or ()), new)


def plain_events(events: Sequence[Event]) -> list[Any]:
    """Events as plain values, to compare two assemblers' with ``==``."""
    return [(type(event).__name__, *map(_plain, _values(event))) for event in events]


def _values(event: Event) -> list[Any]:
    if isinstance(event, tuple):
        return list(event)
    return [getattr(event, item.name) for item in fields(event)]


def _plain(value: Any) -> Any:
    if isinstance(value, OpenTransaction):
        names = [name for name in OpenTransaction.__slots__ if name != "tag"]
        return tuple(getattr(value, name) for name in names)
    return value
