"""What a look into a slot found: transactions, sizes, tables, the first changes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from decoder.events import (
    Change,
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
)
from decoder.scalars import LSN, datetime_from_us
from replview.receiver.peeks.as_json import change_record, message_record, utc_text

#: How many transactions are listed, and changes shown.
LISTED, SHOWN = 100, 50
_OPERATIONS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates"}


@dataclass(slots=True, eq=False)
class Waiting:
    """One transaction that waits in the slot."""

    xid: int | None
    gid: str | None
    #: ``streaming``, ``prepared``, ``committed`` or ``rolled back``; empty: aborted.
    state: str
    commit_lsn: int | None = None
    commit_time_us: int | None = None
    changes: int = 0
    size_bytes: int = 0
    #: Table → counts by operation.
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Subtransaction → table and operation → changes, to take an aborted one away again.
    subxids: dict[int, dict[tuple[str, str], int]] = field(default_factory=dict)


class Findings:
    """Counts events as they come."""

    def __init__(
        self, from_lsn: LSN, until_lsn: LSN, unknown: list[str], *, complete: bool = False
    ) -> None:
        self.complete = complete
        self.stopped_by: str | None = None
        self.changes = 0
        self._from_lsn, self._until_lsn = from_lsn, until_lsn
        self._unknown = unknown
        self._waiting: list[Waiting] = []
        #: What was shown of each transaction: an aborted one is taken out again.
        self._shown: list[tuple[OpenTransaction | None, Change | None, dict[str, Any]]] = []

    def take(self, events: Iterable[Event], max_changes: int) -> bool:
        """Count events; whether there are as many changes as were asked for."""
        for event in events:
            if isinstance(event, ChangeRun):
                left = max_changes - self.changes
                self._run(event, left)
                if len(event.changes) >= left:
                    return True
            elif isinstance(event, StandaloneMessage):
                self.changes += 1
                if len(self._shown) < SHOWN:
                    self._shown.append((None, None, message_record(event)))
            else:
                self._ended(event)
        return self.changes >= max_changes

    def end(self, open_streams: Iterable[OpenTransaction]) -> None:
        """The look came to its end; these have not ended on the source."""
        for transaction in open_streams:
            waiting: Waiting | None = transaction.tag
            if waiting is not None:
                waiting.state = "streaming"

    def stop(self, bound: str) -> None:
        """It was cut off: by ``changes`` or by ``seconds``."""
        self.stopped_by, self.complete = bound, False

    def result(self, plugin: str, *, seconds: float) -> dict[str, Any]:
        """All of it, in JSON's types."""
        waiting = [item for item in self._waiting if item.state]
        committed = [item for item in waiting if item.state == "committed"]
        times = [item.commit_time_us for item in committed if item.commit_time_us is not None]
        tables: dict[str, dict[str, int]] = {}
        for item in waiting:
            for name, counts in item.tables.items():
                total = tables.setdefault(name, dict.fromkeys(_OPERATIONS.values(), 0))
                for operation, number in counts.items():
                    total[operation] += number
        listed = [_listed(item) for item in waiting[:LISTED]]
        return {
            "plugin": plugin,
            "from_lsn": str(self._from_lsn),
            "until_lsn": str(self._until_lsn),
            "complete": self.complete,
            "stopped_by": self.stopped_by,
            "seconds": round(seconds, 3),
            "changes": self.changes,
            "transactions": len(committed),
            "open_transactions": sum(item.state == "streaming" for item in waiting),
            "prepared": sum(item.state == "prepared" for item in waiting),
            "bytes": sum(item.size_bytes for item in waiting),
            "oldest_commit": utc_text(datetime_from_us(min(times)) if times else None),
            "newest_commit": utc_text(datetime_from_us(max(times)) if times else None),
            "tables": [{"table": name, **counts} for name, counts in sorted(tables.items())],
            "listed": listed,
            "first_changes": [record for _, _, record in self._shown],
            "unknown": self._unknown,
        }

    def _run(self, event: ChangeRun, left: int) -> None:
        transaction, changes, size_bytes = event
        waiting = self._of(transaction)
        # A share of the run's bytes, where it is not counted whole.
        waiting.size_bytes += size_bytes * min(left, len(changes)) // len(changes)
        for change in changes[:left]:
            self.changes += 1
            waiting.changes += 1
            if change.relation is not None:
                self._count(waiting, change)
            if len(self._shown) < SHOWN:
                record = change_record(transaction, change)
                self._shown.append((transaction, change, record))

    def _count(self, waiting: Waiting, change: Change) -> None:
        assert change.relation is not None
        name = f"{change.relation.namespace}.{change.relation.name}"
        operation = _OPERATIONS[change.op]
        counts = waiting.tables.setdefault(name, dict.fromkeys(_OPERATIONS.values(), 0))
        counts[operation] += 1
        if change.subxid is not None:
            of = waiting.subxids.setdefault(change.subxid, {})
            of[name, operation] = of.get((name, operation), 0) + 1

    def _of(self, transaction: OpenTransaction) -> Waiting:
        waiting: Waiting | None = transaction.tag
        if waiting is None:
            # A streamed one is open until its end is seen; others are sent once they ended.
            state = {"streamed": "streaming", "prepared": "prepared"}.get(
                transaction.kind, "committed"
            )
            waiting = transaction.tag = Waiting(
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
        found = [w for w in self._waiting if w.gid == event.gid and w.state == "prepared"]
        if isinstance(event, PreparedRolledBack):
            for waiting in found:
                waiting.state = "rolled back"
            return
        if not found:
            # Prepared before what waits here: only its end does.
            found = [Waiting(event.xid, event.gid, "prepared")]
            self._waiting += found
        found[-1].state, found[-1].commit_lsn = "committed", event.commit_lsn
        found[-1].commit_time_us = event.commit_time_us

    def _take_back(self, transaction: OpenTransaction, subxid: int | None) -> None:
        """An aborted transaction (or a part of it) does not wait for anybody."""
        waiting = self._of(transaction)
        if subxid is None:
            self.changes -= waiting.changes
            waiting.state, waiting.tables = "", {}
        else:
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


def _listed(item: Waiting) -> dict[str, Any]:
    when = None if item.commit_time_us is None else datetime_from_us(item.commit_time_us)
    return {
        "xid": item.xid,
        "gid": item.gid,
        "state": item.state,
        "commit_lsn": None if item.commit_lsn is None else str(LSN(item.commit_lsn)),
        "commit_time": utc_text(when),
        "changes": item.changes,
        "bytes": item.size_bytes,
        "tables": sorted(item.tables),
    }
