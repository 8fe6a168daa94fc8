"""The list beside a transaction's changes: all of them, each table, the messages."""

from collections.abc import Mapping
from dataclasses import dataclass

from replview.features.transactions.filters import MESSAGES, Shown
from replview.store.read.history import TransactionRow

_LETTERS = "IUDT"


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A line of the list beside the changes."""

    word: str
    #: What selects it: ``public.orders``, ``messages``, or empty for all.
    value: str
    schema: str
    counts: list[tuple[str, int]]
    current: bool
    url: str
    relation_id: int | None = None


def table_entries(
    row: TransactionRow, names: Mapping[int, tuple[str, str]], shown: Shown
) -> list[TableEntry]:
    """All tables, each table with the most changes first, messages."""
    totals = [row.inserts, row.updates, row.deletes, row.truncates]
    all_counts = _counts(totals) + ([("M", row.messages)] if row.messages else [])
    if row.state == "snapshot":
        all_counts = [("S", row.inserts)]
    entries = [TableEntry("All tables", "", "", all_counts, not shown.table, shown.query(table=""))]
    by_size = sorted(row.relations.items(), key=lambda item: (-sum(item[1]), int(item[0])))
    for key, counts in by_size:
        schema, table = names.get(int(key), ("unknown", f"relation {key}"))
        value = f"{schema}.{table}"
        told = [("S", counts[0])] if row.state == "snapshot" else _counts(counts)
        entries.append(
            TableEntry(table, value, schema, told, shown.table == value,
                       shown.query(table=value), int(key))
        )  # fmt: skip
    if row.messages:
        entries.append(
            TableEntry(MESSAGES, MESSAGES, "", [("M", row.messages)], shown.table == MESSAGES,
                       shown.query(table=MESSAGES))
        )  # fmt: skip
    return entries


def _counts(counts: list[int]) -> list[tuple[str, int]]:
    return [(letter, n) for letter, n in zip(_LETTERS, counts, strict=False) if n]


def table_of(entries: list[TableEntry]) -> TableEntry | None:
    """The table whose other transactions are offered: the chosen one, else the one most changed."""
    tables = [entry for entry in entries if entry.relation_id is not None]
    chosen = [entry for entry in tables if entry.current]
    return next(iter(chosen or tables), None)
