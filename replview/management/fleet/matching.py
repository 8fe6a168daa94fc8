"""Patterns of tables and columns, matched against what a database has."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from replview.catalog.plan.slot_request import Columns
from replview.catalog.problems import SourceTrouble, Trouble
from replview.catalog.tables import TableFacts
from replview.store.globs import glob


def tables_matching(patterns: Sequence[str], tables: Iterable[TableFacts]) -> list[TableFacts]:
    """Tables that any pattern matches. Raises ``SourceTrouble`` for a name without ``*`` that is
    no table's; a pattern may well match nothing in one of forty databases.
    """
    everything = list(tables)
    found: dict[int, TableFacts] = {}
    for pattern in patterns:
        matching = [table for table in everything if matches_table(pattern, table)]
        if not matching and "*" not in pattern:
            raise SourceTrouble(
                Trouble(
                    "no_such_table",
                    f"there is no permanent table {pattern} (views, foreign, temporary and "
                    "unlogged tables cannot be published)",
                    "Correct tables in the file; names are written as in the catalog",
                )
            )
        found |= {table.oid: table for table in matching}
    return list(found.values())


def columns_matching(patterns: Sequence[str], tables: Iterable[TableFacts]) -> Columns:
    """``{(schema, table): columns}``. Raises ``SourceTrouble`` as ``tables_matching``."""
    everything = list(tables)
    found: dict[tuple[str, str], frozenset[str]] = {}
    for text in patterns:
        of_table, _, of_column = text.rpartition(".")
        any_found = False
        for table in everything:
            if not matches_table(of_table, table):
                continue
            names = frozenset(name for name in table.columns if _matches(of_column, name))
            if names:
                any_found = True
                key = table.schema, table.name
                found[key] = found.get(key, frozenset()) | names
        if not any_found and "*" not in text:
            raise SourceTrouble(
                Trouble(
                    "no_such_column",
                    f"there is no column {text}",
                    "Correct exclude_columns or mask_columns: schema.table.column",
                )
            )
    return found


def matches_table(pattern: str, table: TableFacts) -> bool:
    """``*`` is every table; any other pattern without a dot is of ``public``."""
    if pattern == "*":
        return True
    return _matches(pattern if "." in pattern else f"public.{pattern}", str(table))


def _matches(pattern: str, name: str) -> bool:
    return _compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    return glob(pattern)
