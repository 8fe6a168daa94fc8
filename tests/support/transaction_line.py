"""A line of a list of transactions, without a store."""

import datetime as dt
from typing import Any

from replview.health.open_transactions import Touched
from replview.store.read.rows import TransactionRow
from replview.ui.changes.transaction_lines import TransactionLine

NOW = dt.datetime(2026, 3, 1, 7, 57, 11, tzinfo=dt.UTC)


def line(*, tables: list[Touched] | None = None, **told: Any) -> TransactionLine:
    """Return a line with these facts of its row, else those of a small transaction."""
    values: dict[str, Any] = {
        "id": 7, "incarnation_id": 1, "commit_seq": 3, "xid": 700, "gid": None,
        "state": "committed", "streamed": False, "first_lsn": None, "commit_lsn": "0/10",
        "end_lsn": None, "commit_time": NOW, "prepared_at": None, "ended_at": None,
        "origin": None, "actor": None, "actor_grade": None, "context": None, "actors": None,
        "inserts": 2,
        "updates": 0, "deletes": 0, "truncates": 0, "messages": 0, "size_bytes": 2048,
        "relations": {}, "aborted_changes": 0, "received_at": NOW, "stored_at": NOW,
    }  # fmt: skip
    shown = {name: told.pop(name) for name in ("prefix", "chosen", "slot") if name in told}
    row = TransactionRow(**{**values, **told})
    return TransactionLine(
        row=row, incarnation=1, tables=tables or [], **{"slot": "shop/replview", **shown}
    )
