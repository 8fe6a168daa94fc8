"""What a user asked of a new slot, and which of the database's tables that means."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg

from replview.catalog.connections import connected
from replview.catalog.doctor.findings import some_of
from replview.catalog.naming import name_parts, table_parts
from replview.catalog.problems import SourceProblem, explain
from replview.catalog.publications import Publication, read_publications
from replview.catalog.tables import TableFacts, leaves_of

#: ``{(schema, table): columns}``.
Columns = Mapping[tuple[str, str], frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A slot somebody wants, before it is known what the source lets us do."""

    slot_name: str
    #: Existing publications, used as they are; then no table is chosen.
    publications: tuple[str, ...] = ()
    #: ``schema.table`` (``table`` alone is of ``public``), as ``table_parts`` reads it; empty: all.
    tables: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    #: One publication FOR ALL TABLES, new ones too.
    all_tables: bool = False
    #: Under ``all_tables``: tables (``TableFacts.text``) whose UPDATE and DELETE may fail from then
    #: on, which somebody has seen and wants all the same.
    breaking: frozenset[str] = frozenset()
    exclude: Columns = field(default_factory=dict)
    mask: Columns = field(default_factory=dict)
    two_phase: bool = True
    #: Take over a slot that is already there.
    adopt: bool = False
    #: Made on the receiver's own connection and gone with it: only publications are planned.
    temporary: bool = False
    #: 17 and later: kept on standbys that synchronize slots.
    failover: bool = False
    #: Retained WAL it may cost; None: chosen by the plan, but for a slot that is adopted.
    wal_budget_bytes: int | None = None
    #: As ``Slot.Protect``; empty: the database, of a slot that is adopted the record.
    protect: str = ""
    #: Write a transactional message so often; None: never.
    heartbeat_seconds: int | None = None


def refuse(code: str, cause: str, remedy: str) -> SourceProblem:
    """The refusal to raise."""
    return SourceProblem(code, cause, remedy)


def parse_columns(texts: list[str]) -> dict[tuple[str, str], frozenset[str]]:
    """``schema.table.column`` or ``table.column`` (of ``public``), once for each column."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    for text in texts:
        parts = name_parts(text)
        if len(parts) not in (2, 3) or not all(parts):
            raise refuse(
                "bad_column",
                f"{text} is not a column's name",
                'Write schema.table.column; a name with a dot in double quotes: "a.b".table.column',
            )
        key = (parts[0], parts[1]) if len(parts) == 3 else ("public", parts[0])
        found[key] = found.get(key, frozenset()) | {parts[-1]}
    return found


def chosen_tables(wish: Wish, tables: list[TableFacts], server_version: int) -> list[TableFacts]:
    """The tables to publish: roots of partitioned ones (leaves before 13), named ones, or all.

    A partition is published through its root, so that its rows appear under the one table's name
    and new partitions are in from the start. One that is named itself is published as itself.
    """
    by_name = {(table.schema, table.name): table for table in tables}
    named = [_named(text, by_name) for text in wish.tables]
    if unknown := sorted(set(wish.schemas) - {table.schema for table in tables}):
        raise refuse(
            "no_such_schema", f"there is no table in schema {unknown[0]}", "Correct --schema"
        )
    if not named or wish.schemas:
        named += [
            table
            for table in tables
            if table.parent is None and (not wish.schemas or table.schema in wish.schemas)
        ]
    if server_version < 130000:
        named = [leaf for table in named for leaf in _without_roots(table, tables)]
    chosen = sorted({table.oid: table for table in named}.values(), key=str)
    covered = {leaf.oid for table in chosen for leaf in leaves_of(table, tables)}
    chosen = [table for table in chosen if table.oid not in covered]
    if not chosen:
        raise refuse(
            "no_tables",
            "there is no table to publish",
            "Create one first, or name an existing publication with --publication",
        )
    return chosen


def check_owned(chosen: list[TableFacts], tables: list[TableFacts], may_create: bool) -> None:
    """Publishing needs CREATE on the database and ownership of every table."""
    if not may_create:
        raise refuse(
            "may_not_publish",
            "the role may not create publications in this database",
            "GRANT CREATE ON DATABASE … TO the role, or let the owner create a publication and "
            "give it with --publication",
        )
    foreign = [str(table) for table in chosen if not table.owned]
    if foreign:
        raise refuse(
            "not_owner",
            f"the role does not own {some_of(foreign)}, and only an owner can publish a table",
            "Choose other tables with --tables, or let the owner create a publication and give it "
            "with --publication",
        )


def fully_usable(table: TableFacts, tables: list[TableFacts]) -> bool:
    """Whether updates of the table, and of every partition below it, can be published."""
    return table.usable and all(leaf.usable for leaf in leaves_of(table, tables))


def _named(text: str, by_name: dict[tuple[str, str], TableFacts]) -> TableFacts:
    table = by_name.get(table_parts(text))
    if table is None:
        raise refuse(
            "no_such_table",
            f"there is no permanent table {text} (views, foreign, temporary and unlogged tables "
            "cannot be published)",
            "Correct --tables; names are written as in the catalog: schema.table; one that holds a "
            'dot stands in double quotes: "a.b".table',
        )
    return table


def _without_roots(table: TableFacts, tables: list[TableFacts]) -> list[TableFacts]:
    """Before 13 a partitioned table cannot be published, its partitions can."""
    if not table.partitioned:
        return [table]
    return [leaf for leaf in leaves_of(table, tables) if not leaf.partitioned]


def existing_publications(conninfo: str) -> tuple[str, ...]:
    """All publications of the database, if the server will read them together; maybe none."""
    try:
        with connected(conninfo) as connection:
            found = read_publications(connection)
    except psycopg.Error as error:
        raise explain(error, conninfo) from None
    if clash := clash_of(found):
        raise refuse(
            "publications_clash",
            f"several publications give table {clash} different column lists, which one slot "
            "cannot read",
            f"Choose with --publication among: {some_of([item.name for item in found])}",
        )
    return tuple(item.name for item in found)


def clash_of(publications: list[Publication]) -> str:
    """A table that two publications narrow to different columns; empty if there is none."""
    seen: dict[tuple[str, str], tuple[str, ...] | None] = {}
    for publication in publications:
        for table in publication.tables:
            columns = seen.setdefault((table.schema, table.name), table.columns)
            if columns != table.columns:
                return f"{table.schema}.{table.name}"
    return ""
