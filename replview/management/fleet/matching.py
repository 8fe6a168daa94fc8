"""The tables and columns that the patterns of a fleet file match, and the request for a slot."""

from collections.abc import Iterable, Sequence

from replview.catalog.plan.slot_request import Columns, SlotRequest
from replview.catalog.problems import SourceProblem
from replview.catalog.tables import TableFacts, leaves_of
from replview.catalog.wal_budget import RECORD
from replview.management.fleet.declared_slot import DeclaredSlot
from replview.store.read.mask_rules import glob


def request_of(declared: DeclaredSlot, tables: list[TableFacts]) -> SlotRequest:
    """Return the request that creates the slot. Raises ``SourceProblem`` for unknown tables."""
    # Any protect value makes the plan choose a budget: leave "record" out if the file says "none".
    no_budget = declared.says("wal_budget") and declared.wal_budget is None
    protect = None if no_budget and declared.protect == RECORD else declared.protect
    return SlotRequest(
        slot_name=declared.name,
        publications=declared.publications,
        tables=chosen_names(declared, tables),
        all_tables=bool(declared.all_tables),
        exclude=columns_matching(declared.exclude_columns, tables),
        mask=columns_matching(declared.mask_columns, tables),
        two_phase=declared.two_phase,
        adopt=declared.adopt,
        failover=declared.failover,
        wal_budget_bytes=declared.wal_budget,
        protect=protect or "",
        heartbeat_seconds=declared.heartbeat,
    )


def chosen_names(declared: DeclaredSlot, tables: list[TableFacts]) -> tuple[str, ...]:
    """Return the chosen tables as ``schema.table``; empty means all tables."""
    patterns, except_patterns = declared.tables or ("*",), declared.except_tables or ()
    if patterns == ("*",) and not except_patterns:
        return ()
    matching = tables_matching(patterns, tables)
    excluded_oids = {
        table.oid
        for table in matching
        if any(matches_table(pattern, table) for pattern in except_patterns)
    }
    # Excluding a partitioned table excludes its partitions.
    excluded_oids |= {
        leaf.oid
        for table in matching
        if table.oid in excluded_oids
        for leaf in leaves_of(table, tables)
    }
    chosen = tuple(table.text for table in matching if table.oid not in excluded_oids)
    # Return the patterns themselves if nothing is chosen: an empty result would mean all tables.
    return chosen or tuple(patterns)


def tables_matching(patterns: Sequence[str], tables: Iterable[TableFacts]) -> list[TableFacts]:
    """Return the tables that any of the patterns matches.

    Raises ``SourceProblem`` for a name without ``*`` that is no table. A pattern with ``*`` may
    match nothing, because many databases share it.
    """
    all_tables = list(tables)
    tables_by_oid: dict[int, TableFacts] = {}
    for pattern in patterns:
        matching = [table for table in all_tables if matches_table(pattern, table)]
        if not matching and "*" not in pattern:
            raise SourceProblem(
                "no_such_table",
                f"there is no permanent table {pattern} (views, foreign, temporary and "
                "unlogged tables cannot be published)",
                "Correct tables in the file; names are written as in the catalog",
            )
        tables_by_oid |= {table.oid: table for table in matching}
    return list(tables_by_oid.values())


def columns_matching(patterns: Sequence[str], tables: Iterable[TableFacts]) -> Columns:
    """Return the matching columns as ``{(schema, table): columns}``.

    Raises ``SourceProblem`` for a name without ``*`` that is no column.
    """
    all_tables = list(tables)
    columns: dict[tuple[str, str], frozenset[str]] = {}
    for text in patterns:
        table_pattern, _, column_pattern = text.rpartition(".")
        has_match = False
        for table in all_tables:
            if not matches_table(table_pattern, table):
                continue
            names = frozenset(
                name for name in table.columns if glob(column_pattern).fullmatch(name)
            )
            if names:
                has_match = True
                key = table.key
                columns[key] = columns.get(key, frozenset()) | names
        if not has_match and "*" not in text:
            remedy = "Correct exclude_columns or mask_columns: schema.table.column"
            raise SourceProblem("no_such_column", f"there is no column {text}", remedy)
    return columns


def matches_table(pattern: str, table: TableFacts) -> bool:
    """Return whether the pattern matches the table.

    ``*`` matches every table; any other pattern without a dot means the schema ``public``.
    """
    if pattern == "*":
        return True
    full_pattern = pattern if "." in pattern else f"public.{pattern}"
    return glob(full_pattern).fullmatch(str(table)) is not None
