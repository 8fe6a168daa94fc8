"""This module defines the request for a new slot, and finds the tables that it means."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.catalog.connections import reading
from replview.catalog.naming import table_parts
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import Publication, read_publications
from replview.catalog.tables import TableFacts, leaves_of
from replview.catalog.wal_budget import read_budget
from replview.text.formats import some_of
from replview.text.parsing import name_parts

#: Columns by table: ``{(schema, table): columns}``.
Columns = Mapping[tuple[str, str], frozenset[str]]
#: Options of the output plugin that may be chosen, with the values that make sense.
PLUGIN_OPTIONS: dict[str, tuple[str, ...]] = {
    "binary": ("on", "off"),
    "messages": ("on", "off"),
    "streaming": ("off", "on", "parallel"),
    "origin": ("any", "none"),
    "proto_version": ("1", "2", "3", "4"),
    # This is an option of wal2json, for an adopted slot.
    "format_version": ("1", "2"),
}
#: Default options of pgoutput; the receiver replaces ``parallel`` where the server lacks it.
PGOUTPUT = {"streaming": "parallel", "messages": "on", "origin": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """A slot that a user wants, before the source was asked what is possible."""

    slot_name: str
    #: Existing publications, used as they are; no table is then chosen.
    publications: tuple[str, ...] = ()
    #: Names of tables, as ``table_parts`` reads them; empty: all tables.
    tables: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    #: True for one publication FOR ALL TABLES, which includes later tables.
    all_tables: bool = False
    #: For ``all_tables``: tables (``TableFacts.text``) on which UPDATE and DELETE will fail, to
    #: which the user has agreed.
    breaking: frozenset[str] = frozenset()
    exclude: Columns = field(default_factory=dict)
    mask: Columns = field(default_factory=dict)
    two_phase: bool = True
    #: True to take over an existing slot.
    adopt: bool = False
    #: True for a temporary slot, which the receiver creates: only publications are planned.
    temporary: bool = False
    #: True for a slot that standbys synchronize (17 and later).
    failover: bool = False
    #: The WAL budget; None: the plan chooses one, unless the slot is adopted.
    wal_budget_bytes: int | None = None
    #: A value of ``Slot.Protect``; empty: the database, or the record of an adopted slot.
    protect: str = ""
    #: Seconds between heartbeats; None: no heartbeat.
    heartbeat_seconds: int | None = None


def parse_columns(texts: list[str]) -> dict[tuple[str, str], frozenset[str]]:
    """Return the columns by table from ``schema.table.column`` or ``table.column`` texts.

    A table without a schema is in ``public``. Raises ``SourceProblem`` for other texts.
    """
    columns: dict[tuple[str, str], frozenset[str]] = {}
    for text in texts:
        parts = name_parts(text)
        if len(parts) not in (2, 3) or not all(parts):
            raise SourceProblem(
                "bad_column",
                f"{text} is not a column's name",
                "Write schema.table.column, and put a part that contains a dot in double quotes: "
                '"a.b".table.column',
            )
        key = (parts[0], parts[1]) if len(parts) == 3 else ("public", parts[0])
        columns[key] = columns.get(key, frozenset()) | {parts[-1]}
    return columns


def chosen_tables(
    request: SlotRequest, tables: list[TableFacts], server_version: int
) -> list[TableFacts]:
    """Return the tables to publish: named ones, or all, with roots in place of partitions.

    A partition is published through its root, so that its rows appear under the name of the root
    and new partitions are included from the start. A partition that is named itself is published
    itself. Before 13 a partitioned table cannot be published; its partitions are returned.
    """
    by_name = {table.key: table for table in tables}
    candidates = [_find_table(text, by_name) for text in request.tables]
    if unknown := sorted(set(request.schemas) - {table.schema for table in tables}):
        cause = f"there is no table in schema {unknown[0]}"
        raise SourceProblem("no_such_schema", cause, "Choose other tables", "schemas")
    if not candidates or request.schemas:
        candidates += [
            table
            for table in tables
            if table.parent is None and (not request.schemas or table.schema in request.schemas)
        ]
    if server_version < 130000:
        # Before 13 only the partitions of a partitioned table can be published.
        candidates = [
            relation
            for table in candidates
            for relation in (table, *leaves_of(table, tables))
            if not relation.partitioned
        ]
    chosen = sorted({table.oid: table for table in candidates}.values(), key=str)
    covered = {leaf.oid for table in chosen for leaf in leaves_of(table, tables)}
    chosen = [table for table in chosen if table.oid not in covered]
    if not chosen:
        remedy = "Create one first, or choose an existing publication"
        raise SourceProblem("no_tables", "there is no table to publish", remedy, "publications")
    return chosen


def check_owned(chosen: list[TableFacts], tables: list[TableFacts], may_create: bool) -> None:
    """Raise ``SourceProblem`` without CREATE on the database or ownership of every table."""
    if not may_create:
        raise SourceProblem(
            "may_not_publish",
            "the role may not create publications in this database",
            "GRANT CREATE ON DATABASE … TO the role, or let the owner create a publication, and "
            "choose it",
            "publications",
        )
    foreign = [str(table) for table in chosen if not table.owned]
    if foreign:
        cause = f"the role does not own {some_of(foreign)}, and only an owner can publish a table"
        remedy = "Choose other tables, or let the owner create a publication, and choose it"
        raise SourceProblem("not_owner", cause, remedy, "publications")


def fully_usable(table: TableFacts, tables: list[TableFacts]) -> bool:
    """Return whether updates of the table, and of every partition below it, can be published."""
    return table.usable and all(leaf.usable for leaf in leaves_of(table, tables))


def _find_table(text: str, by_name: dict[tuple[str, str], TableFacts]) -> TableFacts:
    table = by_name.get(table_parts(text))
    if table is None:
        raise SourceProblem(
            "no_such_table",
            f"there is no permanent table {text} (views, foreign, temporary and unlogged tables "
            "cannot be published)",
            "Choose other tables; write a name as in the catalog, schema.table, and put a part "
            'that contains a dot in double quotes: "a.b".table',
            "tables",
        )
    return table


def existing_publications(conninfo: str) -> tuple[str, ...]:
    """Return all publications of the database; may be empty.

    Raises ``SourceProblem`` where one slot cannot read them together.
    """
    with reading(conninfo, deadline_seconds=10) as connection:
        publications = read_publications(connection)
    if clash := clash_of(publications):
        raise SourceProblem(
            "publications_clash",
            f"several publications give table {clash} different column lists, which one slot "
            "cannot read",
            f"Choose among: {some_of([publication.name for publication in publications])}",
            "publications",
        )
    return tuple(publication.name for publication in publications)


def clash_of(publications: list[Publication]) -> str:
    """Return a table that two publications publish with different columns; empty: none."""
    column_lists: dict[tuple[str, str], tuple[str, ...] | None] = {}
    tables = (table for publication in publications for table in publication.tables)
    clashes = (str(t) for t in tables if column_lists.setdefault(t.key, t.columns) != t.columns)
    return next(clashes, "")


def request_of(answers: Mapping[str, Any], *, temporary: bool) -> SlotRequest:
    """Return the request from the answers of the form, which a draft stores as plain data.

    The plan is made from the answers again when it is carried out. Raises ``SourceProblem`` for an
    invalid WAL budget.
    """
    options: Mapping[str, Any] = answers.get("options") or {}
    use_publications = answers.get("through") == "publications"
    all_tables = answers.get("through") == "all"
    budget = str(options.get("wal_budget") or "").strip()
    return SlotRequest(
        slot_name=str(answers.get("slot_name") or "replview"),
        publications=tuple(answers.get("publications") or ()) if use_publications else (),
        tables=() if use_publications or all_tables else tuple(answers.get("tables") or ()),
        all_tables=all_tables,
        breaking=frozenset(answers.get("breaking") or ()) if all_tables else frozenset(),
        exclude=_columns(answers, "drop"),
        mask=_columns(answers, "mask"),
        two_phase=bool(options.get("two_phase", True)),
        failover=bool(options.get("failover", False)),
        temporary=temporary,
        wal_budget_bytes=read_budget(budget) if budget else None,
        protect=str(options.get("protect") or ""),
        heartbeat_seconds=options.get("heartbeat_seconds"),
    )


def pgoutput_of(answers: Mapping[str, Any]) -> dict[str, str]:
    """Return ``Slot.options``: only those that differ from the defaults."""
    options: Mapping[str, Any] = answers.get("options") or {}
    return {
        name: str(options[name])
        for name, default in PGOUTPUT.items()
        if options.get(name) not in (None, "", default)
    }


def _columns(answers: Mapping[str, Any], rule: str) -> Columns:
    """Return the columns of one rule from ``{"public.users": {"email": "mask"}}``."""
    return {
        table_parts(name): columns
        for name, rules in (answers.get("columns") or {}).items()
        if (columns := frozenset(column for column, chosen in rules.items() if chosen == rule))
    }
