"""A transaction as the live list shows it: made once per read, shared by all sockets."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from replview.store.read.rows import EventRow, TransactionRow

#: Tables named in a row; the rest is a number.
_TABLES_SHOWN = 6


@dataclass(slots=True)
class Summary:
    """A transaction's row, its tables by name, and the form sent to browsers."""

    row: TransactionRow
    #: ``(schema.table, inserts, updates, deletes, truncates)``, the busiest first; of a snapshot
    #: ``(schema.table, 0, 0, 0, 0, rows)``.
    tables: list[tuple[Any, ...]]
    data: dict[str, Any]

    def mentions(self, text: str) -> bool:
        """Whether its names (not its values) hold the text, whatever the case."""
        row = self.row
        wanted = text.casefold()
        names = [str(row.xid or ""), row.gid, row.actor, row.origin, row.commit_lsn]
        names.extend(name for name, *_ in self.tables)
        return any(wanted in name.casefold() for name in names if name)


def milliseconds(moment: dt.datetime | None) -> float | None:
    """Milliseconds since 1970, as browsers count, with the microseconds as a fraction."""
    return None if moment is None else round(moment.timestamp() * 1000, 3)


def summarise(
    row: TransactionRow,
    names: Mapping[int, tuple[str, str]],
    *,
    prefix: str | None = None,
    after_seq: int | None = None,
) -> Summary:
    """The summary of one transaction.

    ``after_seq`` places one that has no place of its own: after that commit.
    """
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
        "tables": tables[:_TABLES_SHOWN],
        "more_tables": max(0, len(tables) - _TABLES_SHOWN),
        "messages": row.messages,
        "prefix": prefix,
        "bytes": row.size_bytes,
        "changes": row.inserts + row.updates + row.deletes + row.truncates + row.messages,
        "aborted": row.aborted_changes,
    }
    return Summary(row=row, tables=tables, data=data)


def _tables(row: TransactionRow, names: Mapping[int, tuple[str, str]]) -> list[tuple[Any, ...]]:
    """As ``Summary.tables``."""
    tables = (
        (
            ".".join(names.get(int(key), ("unknown", key))),
            *((0, 0, 0, 0, counts[0]) if row.state == "snapshot" else counts),
        )
        for key, counts in row.relations.items()
    )
    return sorted(tables, key=lambda table: -sum(table[1:]))


def only_messages(rows: Iterable[TransactionRow]) -> list[int]:
    """The transactions that are named by their message's prefix: they touch no table."""
    return [row.id for row in rows if row.messages and not row.relations]


def marker(event: EventRow) -> dict[str, Any]:
    """A line of the slot's log as a row among the transactions."""
    return {
        "id": f"event-{event.id}",
        "event": event.id,
        "inc": event.incarnation_id,
        "seq": event.after_commit_seq,
        "what": event.kind,
        "text": event.message,
        "table": event.detail.get("table"),
        # A schema change leads to the two versions compared.
        "version": event.detail.get("version_id") if event.kind == "schema" else None,
        "at_ms": milliseconds(event.at),
    }
