"""The contents of a fleet file, and the tables and columns that its patterns match.

An absent key leaves the stored setting unchanged; a new slot gets the default.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.catalog.plan.slot_request import Columns, SlotRequest
from replview.catalog.problems import SourceProblem
from replview.catalog.tables import TableFacts, leaves_of
from replview.catalog.wal_budget import RECORD
from replview.store.read.mask_rules import glob


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSlot:
    """One ``[[source.slot]]`` with the defaults it inherits."""

    name: str
    #: The declared values only, by the names in ``keys.SLOT``.
    values: Mapping[str, Any]
    line: int

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Return the declared value of a key, or ``otherwise`` if it is absent."""
        return self.values.get(key, otherwise)

    def says(self, *keys: str) -> bool:
        """Return whether any of the keys is declared."""
        return any(key in self.values for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSource:
    """One ``[[source]]``. It holds no secret, only the place where the secret is."""

    name: str
    #: A libpq connection string without a password, ``service=…`` or ``env:NAME``.
    dsn: str
    #: ``env:NAME`` or ``file:/path``; empty if no password is declared.
    password_ref: str = ""
    slots: tuple[DeclaredSlot, ...] = ()
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMask:
    """One ``[[mask]]``."""

    #: The name of a source; empty means every source.
    source: str = ""
    table: str = "*"
    column: str = "*"
    type: str = ""
    when: str = "ingest"
    note: str = ""
    line: int

    def __str__(self) -> str:
        kind = f" of type {self.type}" if self.type else ""
        return f"{self.table}.{self.column}{kind}, {self.source or 'every source'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredGrant:
    """One ``[[grant]]``."""

    #: ``user`` or ``group``.
    kind: str
    #: The name of the user or group.
    holder: str
    #: The name of a source; empty means every source.
    source: str = ""
    #: Table patterns; empty means all tables.
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.holder} on {self.source or 'every source'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFleet:
    """Everything that a fleet file declares."""

    #: The file's name without its folder.
    name: str = "fleet.toml"
    sources: tuple[DeclaredSource, ...] = ()
    masks: tuple[DeclaredMask, ...] = ()
    grants: tuple[DeclaredGrant, ...] = ()
    #: True when the file declares mask rules; otherwise ``--prune`` leaves stored rules alone.
    has_masks: bool = field(default=False)


def request_of(declared: DeclaredSlot, tables: list[TableFacts]) -> SlotRequest:
    """Return the request that creates the slot. Raises ``SourceProblem`` for unknown tables."""
    get = declared.get
    # Any protect value makes the plan choose a budget: leave "record" out if the file says "none".
    no_budget = declared.says("wal_budget") and get("wal_budget") is None
    return SlotRequest(
        slot_name=declared.name,
        publications=get("publications", ()),
        tables=chosen_names(declared, tables),
        all_tables=get("all_tables", False),
        exclude=columns_matching(get("exclude_columns", ()), tables),
        mask=columns_matching(get("mask_columns", ()), tables),
        two_phase=get("two_phase", True),
        adopt=get("adopt", False),
        failover=get("failover", False),
        wal_budget_bytes=get("wal_budget"),
        protect="" if no_budget and get("protect") == RECORD else get("protect", ""),
        heartbeat_seconds=get("heartbeat"),
    )


def chosen_names(declared: DeclaredSlot, tables: list[TableFacts]) -> tuple[str, ...]:
    """Return the chosen tables as ``schema.table``; empty means all tables."""
    patterns, except_patterns = declared.get("tables", ("*",)), declared.get("except_tables", ())
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
