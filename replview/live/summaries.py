"""Convert transactions, slots and log lines to the form of the live list."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replview.access.visibility import reading_session
from replview.store.models import Slot
from replview.store.read import history
from replview.store.read.changes.of_transaction import messages_of
from replview.store.read.rows import EventRow, TransactionRow
from replview.text.parsing import table_word

#: Most tables named in a row; the others are counted.
_TABLES_SHOWN = 6


@dataclass(slots=True)
class Summary:
    """A transaction's row, its tables by name, and its form for browsers."""

    row: TransactionRow
    #: ``(schema.table, inserts, updates, deletes, truncates)``, busiest first; for a snapshot
    #: ``(schema.table, 0, 0, 0, 0, rows)``.
    tables: list[tuple[Any, ...]]
    data: dict[str, Any]

    def mentions(self, text: str) -> bool:
        """Return whether its names, not its values, contain the text in any case."""
        row = self.row
        folded = text.casefold()
        names = [str(row.xid or ""), row.gid, *row.names, row.origin, row.commit_lsn]
        names.extend(name for name, *_ in self.tables)
        return any(folded in name.casefold() for name in names if name)


def milliseconds(moment: dt.datetime | None) -> float | None:
    """Return milliseconds since 1970, the unit of browsers, with microseconds as a fraction."""
    return None if moment is None else round(moment.timestamp() * 1000, 3)


def summarise(
    row: TransactionRow,
    names: Mapping[int, tuple[str, str]],
    *,
    prefix: str | None = None,
    after_seq: int | None = None,
) -> Summary:
    """Summarise a transaction; ``after_seq`` places one that has no commit_seq."""
    tables = _tables(row, names)
    data = {
        "id": str(row.id),
        "inc": row.incarnation_id,
        "seq": row.commit_seq if row.commit_seq is not None else after_seq,
        "placed": row.commit_seq is not None,
        "xid": row.xid,
        "gid": row.gid,
        "state": row.state,
        "streamed": row.streamed,
        "commit_ms": milliseconds(row.commit_time),
        "prepared_ms": milliseconds(row.prepared_at),
        "ended_ms": milliseconds(row.ended_at),
        "received_ms": milliseconds(row.received_at),
        "stored_ms": milliseconds(row.stored_at),
        "lsn": row.commit_lsn,
        "origin": row.origin,
        "actor": row.actor,
        "grade": row.actor_grade,
        "more_actors": row.others(row.actor),
        "tables": tables[:_TABLES_SHOWN],
        "more_tables": max(0, len(tables) - _TABLES_SHOWN),
        "messages": row.messages,
        "prefix": prefix,
        "bytes": row.shown_size_bytes,
        "changes": row.changes,
        "aborted": row.aborted_changes,
    }
    return Summary(row=row, tables=tables, data=data)


def _tables(row: TransactionRow, names: Mapping[int, tuple[str, str]]) -> list[tuple[Any, ...]]:
    tables = (
        (
            table_word(*names.get(int(key), ("unknown", key))),
            *((0, 0, 0, 0, counts[0]) if row.state == "snapshot" else counts),
        )
        for key, counts in row.relations.items()
    )
    return sorted(tables, key=lambda table: -sum(table[1:]))


def marker(event: EventRow) -> dict[str, object]:
    """Return a line of the slot's log as a row among the transactions."""
    return {
        "id": f"event-{event.id}",
        "event": event.id,
        "inc": event.incarnation_id,
        "seq": event.after_commit_seq,
        "what": event.kind,
        "text": event.message,
        "table": event.detail.get("table"),
        # The row of a schema change links to a comparison of its two versions.
        "version": event.detail.get("version_id") if event.kind == "schema" else None,
        "at_ms": milliseconds(event.at),
    }


class TableNames:
    """A cache of table names by relation id."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, str]] = {}

    def summaries(
        self, rows: list[TransactionRow], *, after_seqs: list[int] | None = None
    ) -> list[Summary]:
        """Return summaries of rows, with their tables' names and their messages' prefixes."""
        ids = {int(key) for row in rows for key in row.relations}
        if unknown := ids - self._known.keys():
            self._known |= history.relation_names(reading_session(), unknown)
        # Transactions without tables are named by the prefix of their message.
        nameless = [row.id for row in rows if row.messages and not row.relations]
        prefixes = messages_of(reading_session(), nameless)
        return [
            summarise(
                row,
                self._known,
                prefix=prefixes.get(row.id),
                after_seq=after_seqs[number] if after_seqs else None,
            )
            for number, row in enumerate(rows)
        ]

    def forget(self) -> None:
        """Forget all names, because tables may have been renamed."""
        self._known.clear()


def slot_facts(slot: Slot) -> dict[str, object]:
    """Return a slot's state for the sentence on the page."""
    return {
        "id": slot.pk,
        "name": str(slot),
        "state": slot.state,
        "desired": slot.desired,
        "problem": slot.problem_code,
        "cause": slot.problem_cause,
        "remedy": slot.problem_remedy,
        "retry_ms": milliseconds(slot.retry_at),
        "lsn": None if slot.server_lsn is None else str(slot.server_lsn),
        "confirmed_lsn": None if slot.checkpoint_lsn is None else str(slot.checkpoint_lsn),
        "heartbeat_ms": milliseconds(slot.heartbeat_at),
        "stored": slot.transactions_stored,
        "published_tables": slot.published_tables,
    }
