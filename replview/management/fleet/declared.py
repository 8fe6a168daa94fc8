"""What a fleet file declares, and which tables and columns of a database its patterns mean. An
absent key is left as it is; a new slot takes its default.
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
    #: Only what is declared, by the names of ``keys.SLOT``.
    values: Mapping[str, Any]
    line: int

    def get(self, key: str, otherwise: Any = None) -> Any:
        return self.values.get(key, otherwise)

    def says(self, *keys: str) -> bool:
        return any(key in self.values for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSource:
    """One ``[[source]]``. Holds no secret, only where it is."""

    name: str
    #: A libpq connection string without a password, ``service=…`` or ``env:NAME``.
    dsn: str
    #: ``env:NAME`` or ``file:/path``; empty: none is declared.
    password_ref: str = ""
    slots: tuple[DeclaredSlot, ...] = ()
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMask:
    """One ``[[mask]]``."""

    #: The name of a source; empty: every source.
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

    #: ``user`` or ``group``, and which.
    kind: str
    holder: str
    #: The name of a source; empty: every source.
    source: str = ""
    #: Empty: all tables.
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.holder} on {self.source or 'every source'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    #: Of the file, without its folder.
    name: str = "fleet.toml"
    sources: tuple[DeclaredSource, ...] = ()
    masks: tuple[DeclaredMask, ...] = ()
    grants: tuple[DeclaredGrant, ...] = ()
    #: The file speaks of mask rules at all: else ``--prune`` leaves them alone.
    has_masks: bool = field(default=False)


def request_of(declared: DeclaredSlot, tables: list[TableFacts]) -> SlotRequest:
    """Its patterns as names of this database. Raises ``SourceProblem``."""
    get = declared.get
    # A budget that is said to be none is none: one is chosen where something is to be protected.
    none = declared.says("wal_budget") and get("wal_budget") is None
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
        protect="" if none and get("protect") == RECORD else get("protect", ""),
        heartbeat_seconds=get("heartbeat"),
    )


def chosen_names(declared: DeclaredSlot, tables: list[TableFacts]) -> tuple[str, ...]:
    """``schema.table`` of the tables its patterns choose; empty: all, without exception."""
    patterns, excepted = declared.get("tables", ("*",)), declared.get("except_tables", ())
    if patterns == ("*",) and not excepted:
        return ()
    found = tables_matching(patterns, tables)
    out = {table.oid for table in found if any(matches_table(p, table) for p in excepted)}
    # A partitioned table that is left out takes its partitions along.
    out |= {leaf.oid for table in found if table.oid in out for leaf in leaves_of(table, tables)}
    chosen = tuple(table.text for table in found if table.oid not in out)
    # Names that are no table's choose nothing; no name at all would choose everything.
    return chosen or tuple(patterns)


def tables_matching(patterns: Sequence[str], tables: Iterable[TableFacts]) -> list[TableFacts]:
    """Tables that any pattern matches. Raises ``SourceProblem`` for a name without ``*`` that is
    no table's; a pattern may well match nothing in one of forty databases.
    """
    everything = list(tables)
    found: dict[int, TableFacts] = {}
    for pattern in patterns:
        matching = [table for table in everything if matches_table(pattern, table)]
        if not matching and "*" not in pattern:
            raise SourceProblem(
                "no_such_table",
                f"there is no permanent table {pattern} (views, foreign, temporary and "
                "unlogged tables cannot be published)",
                "Correct tables in the file; names are written as in the catalog",
            )
        found |= {table.oid: table for table in matching}
    return list(found.values())


def columns_matching(patterns: Sequence[str], tables: Iterable[TableFacts]) -> Columns:
    """``{(schema, table): columns}``. Raises ``SourceProblem`` as ``tables_matching``."""
    everything = list(tables)
    found: dict[tuple[str, str], frozenset[str]] = {}
    for text in patterns:
        of_table, _, of_column = text.rpartition(".")
        any_found = False
        for table in everything:
            if not matches_table(of_table, table):
                continue
            names = frozenset(name for name in table.columns if glob(of_column).fullmatch(name))
            if names:
                any_found = True
                key = table.key
                found[key] = found.get(key, frozenset()) | names
        if not any_found and "*" not in text:
            remedy = "Correct exclude_columns or mask_columns: schema.table.column"
            raise SourceProblem("no_such_column", f"there is no column {text}", remedy)
    return found


def matches_table(pattern: str, table: TableFacts) -> bool:
    """``*`` is every table; any other pattern without a dot is of ``public``."""
    if pattern == "*":
        return True
    whole = pattern if "." in pattern else f"public.{pattern}"
    return glob(whole).fullmatch(str(table)) is not None
