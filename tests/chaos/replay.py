"""The stored changes, applied in order to empty tables, and what they must then equal.

Nothing but the record is used: a change that was lost, doubled or out of order either cannot be
applied or leaves a row that the source does not have. ALTER TABLE is not part of logical
replication; it is applied where its line in ``ddl_log`` stands in the stream.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg

from tests.chaos.tables import TABLES

Row = dict[str, str | None]
Record = dict[str, Any]


class Replayed:
    """The tables as the record alone tells them."""

    def __init__(self) -> None:
        #: Tables with a key: key → row; those without: how often each row is there.
        self.keyed: dict[str, dict[tuple[str | None, ...], Row]] = {
            name: {} for name, table in TABLES.items() if table.key
        }
        self.bags: dict[str, Counter[tuple[tuple[str, str | None], ...]]] = {
            name: Counter() for name, table in TABLES.items() if not table.key
        }
        #: Changes that could not be applied, each as a sentence.
        self.refused: list[str] = []

    def apply(self, records: Iterable[Record]) -> None:
        """Apply changes in order."""
        for record in records:
            op, name = record["op"], record["table"]
            if op == "message":
                continue
            if name in self.keyed:
                self._apply_keyed(self.keyed[name], TABLES[name].key, record)
            else:
                self._apply_to_bag(self.bags[name], record)
            if name == "ddl_log" and op == "insert":
                self._alter(record["new"])

    def _apply_keyed(
        self, rows: dict[tuple[str | None, ...], Row], key: tuple[str, ...], record: Record
    ) -> None:
        op, new = record["op"], record["new"]
        if op == "truncate":
            rows.clear()
            return
        # The record's own key is the row's before the change: it must be this table's.
        if set(record["key"] or {}) != set(key):
            self._refuse(record, f"its key is {record['key']}")
            return
        before = tuple(record["key"][name] for name in key)
        if op == "insert":
            if before in rows:
                self._refuse(record, f"{before} is there already")
            rows[before] = dict(new)
            return
        former = rows.pop(before, None)
        if former is None:
            self._refuse(record, f"{before} is not there")
        elif op == "update":
            # A column that was not sent is as it was.
            row = former | new
            after = tuple(row[name] for name in key)
            if after in rows:
                self._refuse(record, f"{after} is there already")
            rows[after] = row

    def _apply_to_bag(
        self, rows: Counter[tuple[tuple[str, str | None], ...]], record: Record
    ) -> None:
        op, old, new = record["op"], record["old"], record["new"]
        if op == "truncate":
            rows.clear()
            return
        if op in ("update", "delete"):
            former = tuple(sorted(old.items()))
            if not rows[former]:
                self._refuse(record, "its old row is not there")
            rows[former] -= 1
        if op in ("insert", "update"):
            rows[tuple(sorted(({**(old or {}), **new}).items()))] += 1

    def _alter(self, line: Row) -> None:
        """Carry out an ALTER TABLE of ``shapes`` on the rows that are there."""
        name, value = line["name"] or "", line["value"]
        for row in self.keyed["shapes"].values():
            match line["kind"]:
                case "add":
                    row[name] = value
                case "drop":
                    row.pop(name, None)
                case "rename":
                    row[value or ""] = row.pop(name, None)

    def _refuse(self, record: Record, why: str) -> None:
        place = f"incarnation {record['incarnation']}, commit_seq {record['commit_seq']}"
        self.refused.append(
            f"{place}, seq {record['seq']}: {record['op']} of {record['table']}: {why}"
        )

    def rows(self, table: str) -> Counter[tuple[tuple[str, str | None], ...]]:
        """The rows of a table, each with how often it is there."""
        if table in self.bags:
            return +self.bags[table]
        return Counter(tuple(sorted(row.items())) for row in self.keyed[table].values())


def source_rows(
    source: psycopg.Connection[Any], table: str
) -> Counter[tuple[tuple[str, str | None], ...]]:
    """The rows the source has, every value as the server writes it."""
    # Told rather than waited for: something prepared may hold a table for itself.
    source.execute("SET lock_timeout = '20s'")
    source.execute("SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = UTC")
    names = [
        row[0]
        for row in source.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND NOT attisdropped ORDER BY attnum",
            [table],
        )
    ]
    with source.cursor().copy(f"COPY (SELECT * FROM {table}) TO STDOUT") as copy:
        return Counter(
            tuple(sorted(zip(names, values, strict=True)))  # type: ignore[misc]
            for values in copy.rows()
        )
