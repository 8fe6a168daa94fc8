"""Columns that must not be kept: left out of the publication where possible, and of the store."""

from psycopg import sql

from replview.catalog.tables import TableFacts
from replview.catalog.wishes import Columns, Wish, refuse


def check_columns(wish: Wish, tables: list[TableFacts], usable: list[TableFacts] | None) -> None:
    """Refuse columns that do not exist, or whose absence would break UPDATE and DELETE.

    ``usable`` are the tables whose updates we publish; None: publications are not ours, and every
    identity column counts.
    """
    by_name = {(table.schema, table.name): table for table in tables}
    for columns, option in ((wish.exclude, "--exclude-column"), (wish.mask, "--mask-column")):
        for key, names in columns.items():
            table = by_name.get(key)
            unknown = sorted(names if table is None else names - set(table.columns))
            if unknown:
                raise refuse(
                    "no_such_column",
                    f"there is no column {'.'.join(key)}.{unknown[0]}",
                    f"Correct {option}: schema.table.column",
                )
    for key, names in wish.exclude.items():
        table = by_name[key]
        if usable is None or table in usable:
            _check_identity(table, names)


def column_list(table: TableFacts, wish: Wish, server_version: int) -> sql.Composable:
    """`` (a, b)`` without the excluded columns on 15 and later, else nothing."""
    excluded = wish.exclude.get((table.schema, table.name))
    if not excluded or server_version < 150000:
        return sql.SQL("")
    computed = table.generated if server_version < 180000 else frozenset()
    kept = [name for name in table.columns if name not in excluded | computed]
    return sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, kept)))


def rules_for_slot(wish: Wish) -> dict[str, dict[str, str]]:
    """As ``Slot.column_rules``. Excluded columns are in it too: belt and braces."""
    rules: dict[str, dict[str, str]] = {}
    given: list[tuple[Columns, str]] = [(wish.mask, "mask"), (wish.exclude, "drop")]
    for columns, rule in given:
        for key, names in columns.items():
            rules.setdefault(".".join(key), {}).update(dict.fromkeys(sorted(names), rule))
    return rules


def _check_identity(table: TableFacts, excluded: frozenset[str]) -> None:
    """A column list must cover the replica identity, or UPDATE and DELETE fail on the source."""
    in_identity = [name for name in table.identity_columns if name in excluded]
    if not in_identity:
        return
    if table.replica_identity == "FULL":
        cause = f"{table} is under REPLICA IDENTITY FULL, where every column is in the identity"
    else:
        cause = f"{table}.{in_identity[0]} is in the replica identity of {table}"
    raise refuse(
        "identity_column",
        f"{cause}: without it in the publication, the application's UPDATE and DELETE would fail",
        "Use --mask-column: its value is sent by the source and not kept by replview",
    )
