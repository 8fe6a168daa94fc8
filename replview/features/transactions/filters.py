"""Read from the address which changes a transaction's page shows, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import urlencode

from replview.store.read.changes.of_transaction import ChangeFilter
from replview.store.read.rows import TransactionRow
from replview.text.parsing import read_table_word, table_word
from replview.ui.params import Params

OPERATIONS = "IUDTMS"
#: Value of ``table`` for logical messages; a table's name always has a schema and a dot.
MESSAGES = "messages"
_LAST_SEQ = (1 << 31) - 1
_COUNTED_OPERATIONS = "IUDT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The query parameters; by default changed columns side by side, from the first change."""

    inline: bool = False
    all_columns: bool = False
    #: True when updates that changed nothing are left out.
    only_changed: bool = False
    #: Table to show as ``schema.table``, or ``messages``; empty for all.
    table: str = ""
    #: Letters of the operations to show; empty for all.
    ops: str = ""
    text: str = ""
    #: Number of the change after which the page begins.
    after: int = 0
    #: Number of the change before which the page ends; None for a page forwards.
    before: int | None = None

    @classmethod
    def from_words(cls, words: Mapping[str, object]) -> Self:
        """Read the query parameters; ignore invalid values."""
        params = Params(words)
        at_seq = params.number("at", digits=9)
        after = params.number("after", digits=9) or 0
        return cls(
            inline=params.flag("diff", "inline"),
            all_columns=params.flag("columns", "all"),
            only_changed=params.flag("unchanged", "hidden"),
            table=read_table_word(params.text("table", strip=False)),
            ops=params.letters("ops", OPERATIONS),
            text=params.text("q", strip=False),
            after=after if at_seq is None else max(at_seq - 1, 0),
            before=_LAST_SEQ if params.flag("end", "last") else params.number("before", digits=9),
        )

    @property
    def filtered(self) -> bool:
        """Return whether a filter is set."""
        return bool(self.table or self.ops or self.text)

    def words(self) -> dict[str, str]:
        """Return the query parameters without the place in the transaction."""
        params = {
            "diff": "inline" if self.inline else "",
            "columns": "all" if self.all_columns else "",
            "unchanged": "hidden" if self.only_changed else "",
            "table": self.table,
            "ops": self.ops,
            "q": self.text,
        }
        return {name: value for name, value in params.items() if value}

    def place(self) -> dict[str, str]:
        """Return the query parameters of the place at which the page begins or ends."""
        if self.before is not None:
            return {"end": "last"} if self.before == _LAST_SEQ else {"before": str(self.before)}
        return {"after": str(self.after)} if self.after else {}

    def query(self, *, stay: bool = False, **changes: Any) -> str:
        """Return the query string; with ``stay`` at the same place, else from the first change."""
        params = replace(self, **changes).words() | (self.place() if stay else {})
        return _query_string(params)

    def query_at(self, **place: Any) -> str:
        """Return the query string for another place: ``after``, ``before`` or ``end``."""
        return _query_string(self.words() | {name: str(value) for name, value in place.items()})

    def toggled(self, letter: str, letters: str) -> str:
        """Return the chosen operations with one switched; ``letters`` are all that are offered."""
        current = self.ops or letters
        chosen = "".join(
            offered for offered in letters if (offered in current) != (offered == letter)
        )
        return "" if chosen == letters else chosen

    def change_filter(
        self, relations: Mapping[str, int], *, with_aborted: bool
    ) -> ChangeFilter | None:
        """Return the store's filter; None for a table that the transaction did not change."""
        if self.table and self.table != MESSAGES and self.table not in relations:
            return None
        return ChangeFilter(
            relation_id=None if self.table == MESSAGES else relations.get(self.table),
            ops="M" if self.table == MESSAGES else self.ops,
            text=self.text,
            with_aborted=with_aborted,
        )


def _query_string(params: Mapping[str, str]) -> str:
    return f"?{urlencode(params)}" if params else "?"


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry of the list of tables beside the changes."""

    word: str
    #: Value of ``table`` that selects the entry: ``public.orders``, ``messages``, or empty.
    value: str
    schema: str
    counts: list[tuple[str, int]]
    current: bool
    url: str
    relation_id: int | None = None


def table_entries(
    row: TransactionRow, names: Mapping[int, tuple[str, str]], shown: Shown
) -> list[TableEntry]:
    """Return entries for all tables, for each table (most changes first), and for messages."""
    totals = [row.inserts, row.updates, row.deletes, row.truncates]
    all_counts = _operation_counts(totals) + ([("M", row.messages)] if row.messages else [])
    if row.state == "snapshot":
        all_counts = [("S", row.inserts)]
    entries = [TableEntry("All tables", "", "", all_counts, not shown.table, shown.query(table=""))]
    by_size = sorted(row.relations.items(), key=lambda item: (-sum(item[1]), int(item[0])))
    for key, counts in by_size:
        schema, table = names.get(int(key), ("unknown", f"relation {key}"))
        value = table_word(schema, table)
        table_counts = [("S", counts[0])] if row.state == "snapshot" else _operation_counts(counts)
        entries.append(
            TableEntry(table, value, schema, table_counts, shown.table == value,
                       shown.query(table=value), int(key))
        )  # fmt: skip
    if row.messages:
        entries.append(
            TableEntry(MESSAGES, MESSAGES, "", [("M", row.messages)], shown.table == MESSAGES,
                       shown.query(table=MESSAGES))
        )  # fmt: skip
    return entries


def _operation_counts(counts: list[int]) -> list[tuple[str, int]]:
    return [
        (letter, number)
        for letter, number in zip(_COUNTED_OPERATIONS, counts, strict=False)
        if number
    ]


def table_of(entries: list[TableEntry]) -> TableEntry | None:
    """Return the chosen table, else the one with most changes; None without a table."""
    tables = [entry for entry in entries if entry.relation_id is not None]
    chosen = [entry for entry in tables if entry.current]
    return next(iter(chosen or tables), None)
