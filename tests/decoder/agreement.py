"""Two plugins' words on the same WAL, side by side, and by which differences they differ.

A difference is always the plugin's: something that it does not tell, or that a
publication leaves out and the plugin knows nothing of. ``REASONS`` lists them
all; ``disagreements`` explains every change by them or fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
    TransactionCommitted,
    TransactionPrepared,
    Truncation,
)
from decoder.messages import NOT_SENT, UNCHANGED, LogicalMessage

REASONS = {
    "not published": "a table, an operation or a row is not published: plugins know no publication",
    "more columns": "a column is not published, or generated (which 15's pgoutput leaves out)",
    "row filter": "a publication's row filter turned an update into an insert or a delete",
    "all key": "an old row of all columns, which are all its key, is taken for the whole row",
    "old null": "a NULL in an old row under FULL is not printed",
    "no-op under FULL": "format 1: an old row that repeats the new one but for unprinted NULLs",
    "dropped column": "wal2json: until an insert, a dropped column passes for unchanged TOAST",
    "not a number": "wal2json writes NaN and ±Infinity as null",
    "no truncate": "wal2json's format 1 does not tell TRUNCATE",
    "no options": "wal2json does not tell CASCADE and RESTART IDENTITY",
    "not seen yet": "wal2json: an update of a table not seen before lacks its unchanged TOAST",
    "cut content": "a message is cut at its first NUL byte",
    "other encoding": "a message's content comes in the session's encoding, not the database's",
    "streamed": "under stream-changes, test_decoding prints no values",
    "settings": "the two were captured under other settings for the text of values",
}
_NOT_A_NUMBER = {"NaN", "Infinity", "-Infinity"}


@dataclass
class Summary:
    """The content of a session's stream, in a form that is the same for all plugins."""

    committed: dict[int, list[ChangeEvent]] = field(default_factory=dict)
    end_lsns: dict[int, int] = field(default_factory=dict)
    times: dict[int, int | None] = field(default_factory=dict)
    commit_lsns: dict[int, int | None] = field(default_factory=dict)
    first_lsns: dict[int, int | None] = field(default_factory=dict)
    prepared: dict[tuple[int, str], tuple[int, int | None]] = field(default_factory=dict)
    rolled_back: dict[tuple[int, str], tuple[int, int | None]] = field(default_factory=dict)
    messages: list[LogicalMessage] = field(default_factory=list)
    origins: dict[int, str | None] = field(default_factory=dict)


def summary_of(events: Sequence[Event]) -> Summary:
    """The committed transactions that changed something, and how they ended."""
    result = Summary()
    changes: dict[OpenTransaction, list[ChangeEvent]] = {}
    waiting: dict[tuple[int, str], OpenTransaction] = {}
    for event in events:
        match event:
            case ChangeRun():
                changes.setdefault(event.transaction, []).extend(event.changes)
            case StandaloneMessage():
                assert event.lsn == event.message.lsn
                result.messages.append(event.message)
            case TransactionPrepared():
                key = event.transaction.xid, event.gid
                waiting[key] = event.transaction
                result.prepared[key] = int(event.end_lsn), event.prepare_time_us
            case PreparedRolledBack():
                key = event.xid, event.gid
                result.rolled_back[key] = int(event.rollback_end_lsn), event.rollback_time_us
            case PreparedCommitted():
                opened = waiting.pop((event.xid, event.gid), None)
                if opened is not None:
                    _commit(result, opened, changes.pop(opened, []), event)
            case TransactionCommitted():
                done = changes.pop(event.transaction, [])
                _commit(result, event.transaction, done, event)
    return result


def _commit(
    result: Summary,
    transaction: OpenTransaction,
    changes: list[ChangeEvent],
    event: TransactionCommitted | PreparedCommitted,
) -> None:
    if changes:
        xid = int(transaction.xid)
        assert xid not in result.committed
        result.committed[xid] = changes
        result.end_lsns[xid] = int(event.end_lsn)
        result.times[xid] = event.commit_time_us
        result.commit_lsns[xid] = event.commit_lsn
        result.first_lsns[xid] = transaction.first_lsn
        result.origins[xid] = transaction.origin


def disagreements(
    expected: Summary, actual: Summary, *, streamed: frozenset[int] = frozenset()
) -> set[str]:
    """The reasons by which ``actual`` differs from ``expected``, pgoutput's.

    Fails on any difference that has no reason. ``streamed``: transactions
    of which the plugin sent no values.
    """
    reasons: Counter[str] = Counter()
    for xid, changes in expected.committed.items():
        if xid in streamed:
            reasons["streamed"] += 1
            continue
        reasons.update(_changes(xid, changes, actual.committed.get(xid, [])))
    alone = set(actual.committed) - set(expected.committed)
    reasons["not published"] += len(alone)
    order = [xid for xid in actual.committed if xid not in alone]
    assert order == [xid for xid in expected.committed if xid in actual.committed]
    return {reason for reason, count in reasons.items() if count}


def _changes(xid: int, expected: list[ChangeEvent], actual: list[ChangeEvent]) -> list[str]:
    reasons: list[str] = []
    position = 0
    for change in expected:
        for there in range(position, len(actual)):
            why = _explained(change, actual[there])
            if why is not None:
                reasons += why
                reasons += ["not published"] * (there - position)
                position = there + 1
                break
        else:
            assert change.op == "T", f"{xid}: no {change} in {actual[position : position + 3]}"
            reasons.append("no truncate")
    reasons += ["not published"] * (len(actual) - position)
    return reasons


def _explained(expected: ChangeEvent, actual: ChangeEvent) -> list[str] | None:
    """Why two changes differ: nothing if they do not, ``None`` if they are not the same."""
    # 0: format 1 in one row does not tell it. Several changes may share one.
    if actual.lsn not in (expected.lsn, 0):
        return None
    if isinstance(expected.new, LogicalMessage) and isinstance(actual.new, LogicalMessage):
        return explained_message(expected.new, actual.new)
    wanted, found = expected.relation, actual.relation
    if wanted is None or found is None:
        return None
    if (wanted.namespace, wanted.name) != (found.namespace, found.name):
        return None
    if expected.op != actual.op:
        return _filtered(expected, actual)
    if isinstance(expected.new, Truncation):
        unknown = actual.new == Truncation(None, None) != expected.new
        return ["no options"] if unknown else [] if expected.new == actual.new else None
    new = _row(dict(_named(expected, "new")), dict(_named(actual, "new")))
    if new is None:
        return None
    old = _old(expected, actual)
    return None if old is None else new + old


def _filtered(expected: ChangeEvent, actual: ChangeEvent) -> list[str] | None:
    """Return ``["row filter"]`` if a row filter turned the update into the expected change."""
    if actual.op != "U":
        return None
    if expected.op == "I" and expected.new == actual.new:
        return ["row filter"]
    same = dict(_named(expected, "old")).items() <= dict(_named(actual, "old")).items()
    return ["row filter"] if expected.op == "D" and same else None


def explained_message(expected: LogicalMessage, actual: LogicalMessage) -> list[str] | None:
    if expected.transactional != actual.transactional or expected.prefix != actual.prefix:
        return None
    assert actual.lsn in (expected.lsn, 0)
    if expected.content == actual.content:
        return []
    if expected.content.partition(b"\0")[0] == actual.content.partition(b"\0")[0]:
        return ["cut content"]
    try:
        same = expected.content.decode("latin-1") == actual.content.decode()
    except UnicodeDecodeError:
        same = False
    return ["other encoding"] if same else None


def _named(change: ChangeEvent, which: str) -> list[tuple[str, Any]]:
    values = getattr(change, which)
    if values is None:
        return []
    assert change.relation is not None
    return [
        (name, value)
        for name, value in zip(change.relation.names, values, strict=True)
        if value is not NOT_SENT
    ]


def _row(expected: dict[str, Any], actual: dict[str, Any]) -> list[str] | None:
    reasons = []
    more = set(actual) - set(expected)
    if more and not expected:
        return None
    if more:
        unchanged = all(actual[name] is UNCHANGED for name in more)
        reasons.append("dropped column" if unchanged else "more columns")
    for name, value in expected.items():
        found = actual.get(name, NOT_SENT)
        if value is UNCHANGED and found is NOT_SENT:
            reasons.append("not seen yet")
        elif found is None and value in _NOT_A_NUMBER:
            reasons.append("not a number")
        elif found != value:
            return None
    return reasons


def _old(expected: ChangeEvent, actual: ChangeEvent) -> list[str] | None:
    assert actual.subxid is None
    wanted, found = dict(_named(expected, "old")), dict(_named(actual, "old"))
    if expected.old_kind == actual.old_kind:
        return _row(wanted, found) if wanted or found else []
    assert expected.relation is not None
    if expected.old_kind == "K" and actual.old_kind == "O":
        return ["all key"] if wanted == found else None
    without_nulls = {name: value for name, value in wanted.items() if value is not None}
    if expected.old_kind == "O" and len(without_nulls) < len(wanted):
        if actual.old_kind == "K" and found == without_nulls:
            return ["old null"]
        new = dict(_named(actual, "new"))
        if actual.old is None and all(
            new[name] in (value, UNCHANGED) for name, value in without_nulls.items()
        ):
            return ["no-op under FULL"]
    return None
