"""Convert transactions, slots and log lines to the form of the live list."""

import datetime as dt
from dataclasses import dataclass, field, replace
from typing import Any

from replview.access.visibility import reading_session
from replview.store.models import Slot
from replview.store.read.changes.of_transaction import messages_of
from replview.store.read.rows import EventRow, TransactionRow
from replview.store.read.table_names import names_of_tables
from replview.store.read.transactions.field_matches import NamesOfTables
from replview.text.parsing import table_word
from replview.ui.changes.transaction_columns import live_cells
from replview.ui.changes.transaction_lines import TransactionLine, touched_tables

#: Most tables named in a row; the others are counted.
_TABLES_SHOWN = 6


@dataclass(slots=True)
class Summary:
    """A transaction's row, the names of its tables, and its form for browsers."""

    row: TransactionRow
    #: The names of all tables that were read so far, its own among them.
    names: NamesOfTables
    #: What the browser needs to order, count and filter, besides the cells.
    data: dict[str, Any]
    #: The transaction as lists show it, from which the cells are rendered.
    line: TransactionLine
    #: The cells as HTML, by whether they show the size.
    _cells: dict[bool, str] = field(default_factory=dict)

    def for_browser(self, *, tells_size: bool) -> dict[str, Any]:
        """Return data and cells; browsers of equal visibility share one rendering of the cells.

        ``tells_size`` is false for a restricted account: the size counts tables that it may not
        see.
        """
        if tells_size not in self._cells:
            row = self.row if tells_size else self.row._replace(size_withheld=True)
            line = self.line if tells_size else replace(self.line, row=row)
            self._cells[tells_size] = live_cells(line)
        return {**self.data, "cells": self._cells[tells_size]}


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
    tables = touched_tables(row, {int(key): _name(names, key) for key in row.relations})
    data = {
        "id": str(row.id),
        "inc": row.incarnation_id,
        "seq": row.commit_seq if row.commit_seq is not None else after_seq,
        "placed": row.commit_seq is not None,
        "state": row.state,
        "commit_ms": milliseconds(row.commit_time),
        "prepared_ms": milliseconds(row.prepared_at),
        "ended_ms": milliseconds(row.ended_at),
        "received_ms": milliseconds(row.received_at),
        "stored_ms": milliseconds(row.stored_at),
        "changes": row.changes,
        # Choices of the filters.
        "origin": row.origin,
        "actor": row.actor,
        "tables": [table_word(*_name(names, key)) for key in row.relations][:_TABLES_SHOWN],
    }
    line = TransactionLine(
        row=row,
        slot="",
        incarnation=0,
        tables=tables[:_TABLES_SHOWN],
        more_tables=tables[_TABLES_SHOWN:],
        prefix=prefix or "",
    )
    return Summary(row=row, names=names, data=data, line=line)


def _name(names: NamesOfTables, key: str) -> tuple[str, str]:
    """Return the present name of a table."""
    return names.get(int(key), [("unknown", key)])[0]


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
