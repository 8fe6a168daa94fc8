"""Convert transactions, slots and log lines to the form of the live list."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

from replview.access.visibility import reading_session
from replview.store.models import Slot
from replview.store.read.changes.of_transaction import messages_of
from replview.store.read.rows import EventRow, TransactionRow
from replview.store.read.table_names import names_of_tables
from replview.store.read.transactions.field_matches import NamesOfTables
from replview.text.parsing import table_word

#: Most tables named in a row; the others are counted.
_TABLES_SHOWN = 6


@dataclass(slots=True)
class Summary:
    """A transaction's row, the names of its tables, and its form for browsers."""

    row: TransactionRow
    #: The names of all tables that were read so far, its own among them.
    names: NamesOfTables
    data: dict[str, Any]


def milliseconds(moment: dt.datetime | None) -> float | None:
    """Return milliseconds since 1970, the unit of browsers, with microseconds as a fraction."""
    return None if moment is None else round(moment.timestamp() * 1000, 3)


def summarise(
    row: TransactionRow,
    names: NamesOfTables,
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
    return Summary(row=row, names=names, data=data)


def _tables(row: TransactionRow, names: NamesOfTables) -> list[tuple[Any, ...]]:
    """Return ``(schema.table, inserts, updates, deletes, truncates)``, busiest first.

    A table of a snapshot is ``(schema.table, 0, 0, 0, 0, rows)``.
    """
    tables = (
        (
            table_word(*names.get(int(key), [("unknown", key)])[0]),
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
        self._known: dict[int, list[tuple[str, str]]] = {}

    def summaries(
        self, rows: list[TransactionRow], *, after_seqs: list[int] | None = None
    ) -> list[Summary]:
        """Return summaries of rows, with their tables' names and their messages' prefixes."""
        ids = {int(key) for row in rows for key in row.relations}
        if unknown := ids - self._known.keys():
            self._known |= names_of_tables(reading_session(), unknown)
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
        self._known = {}


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
