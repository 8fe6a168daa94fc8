"""Columns that must not be kept: left out of the publication where possible, and of the store."""

from psycopg import sql

from replview.catalog.plan.slot_request import Columns, Wish, fully_usable, refuse
from replview.catalog.tables import TableFacts, leaves_of


def check_columns(wish: Wish, tables: list[TableFacts], usable: list[TableFacts] | None) -> None:
    """Refuse columns that do not exist, or whose absence would break UPDATE and DELETE.

    ``usable`` are the tables whose updates we publish; None: publications are not ours, and every
    identity column counts.
    """
    known_columns(tables, wish.mask, "Correct --mask-column: schema.table.column")
    excluded = known_columns(tables, wish.exclude, "Correct --exclude-column: schema.table.column")
    for table, names in excluded:
        if usable is None or table in usable:
            # A partition may have an identity of its own.
            for one in (table, *leaves_of(table, tables)):
                _check_identity(one, names)


def known_columns(
    tables: list[TableFacts], columns: Columns, remedy: str
) -> list[tuple[TableFacts, frozenset[str]]]:
    """The tables that are meant, each with its columns. Refuses columns that are not there."""
    by_name = {(table.schema, table.name): table for table in tables}
    found = []
    for key, names in columns.items():
        table = by_name.get(key)
        unknown = sorted(names if table is None else names - set(table.columns))
        if unknown:
            cause = f"there is no column {'.'.join(key)}.{unknown[0]}"
            raise refuse("no_such_column", cause, remedy)
        if table is not None:
            found.append((table, names))
    return found


def table_items(tables: list[TableFacts], wish: Wish, server_version: int) -> sql.Composed:
    """As they stand after TABLE: each with its columns, where some are left out."""
    items = [
        sql.SQL("{}{}").format(
            sql.Identifier(table.schema, table.name), _column_list(table, wish, server_version)
        )
        for table in tables
    ]
    return sql.SQL(", ").join(items)


def _column_list(table: TableFacts, wish: Wish, server_version: int) -> sql.Composable:
    """`` (a, b)`` without the excluded columns on 15 and later, else nothing."""
    excluded = wish.exclude.get((table.schema, table.name), frozenset())
    kept = listed_columns(table, excluded, server_version)
    if kept is None or server_version < 150000:
        return sql.SQL("")
    return sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, kept)))


def listed_columns(
    table: TableFacts, excluded: frozenset[str], server_version: int
) -> tuple[str, ...] | None:
    """The columns to be named; None: none is left out, and the table needs no list."""
    if not excluded:
        return None
    # Before 18 no list takes what is computed, from then on what is computed when it is read.
    computed = table.generated if server_version < 180000 else table.virtual
    kept = tuple(name for name in table.columns if name not in excluded | computed)
    if not kept:
        raise refuse(
            "no_columns",
            f"no column of {table} would be left",
            "Keep one, or take the whole table out of the publication",
        )
    return kept


def must_be_sent(table: TableFacts, tables: list[TableFacts], column: str) -> str:
    """Why a column cannot be left out of a publication; empty: it can."""
    if not fully_usable(table, tables):
        return ""
    for one in (table, *leaves_of(table, tables)):
        if column in one.identity_columns:
            what = "the whole row" if one.replica_identity == "FULL" else "it"
            return f"{what} tells this table's rows apart"
    return ""


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
