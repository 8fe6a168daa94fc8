"""Columns that must not be kept: left out of the publication where possible (column lists, 15 and
later), and of the store; chosen for a new slot, or changed later.

A table gets another list by leaving its publication and joining it again, both in one transaction:
so no other table is named, locked, or loses a list or a row filter that somebody else gave it
meanwhile, as with SET TABLE. Its own row filter is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.naming import some_of
from replview.catalog.plan.slot_request import Columns, SlotRequest, fully_usable
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import (
    Member,
    Publication,
    check_alterable,
    read_members,
    read_publications,
)
from replview.catalog.tables import TableFacts, leaves_of, read_tables

#: Before it a publication has no column lists.
_SINCE = 150000


def check_columns(
    request: SlotRequest, tables: list[TableFacts], usable: list[TableFacts] | None
) -> None:
    """Refuse columns that do not exist, or whose absence would break UPDATE and DELETE.

    ``usable`` are the tables whose updates we publish; None: publications are not ours, and every
    identity column counts.
    """
    known_columns(tables, request.mask, "mask")
    for table, names in known_columns(tables, request.exclude, "exclude"):
        if usable is None or table in usable:
            check_identity(table, tables, names)


def known_columns(
    tables: list[TableFacts], columns: Columns, field: str = ""
) -> list[tuple[TableFacts, frozenset[str]]]:
    """The tables that are meant, each with its columns. Refuses columns that are not there.

    ``field``: which one of a request named them.
    """
    by_name = {table.key: table for table in tables}
    found = []
    for key, names in columns.items():
        table = by_name.get(key)
        unknown = sorted(names if table is None else names - set(table.columns))
        if unknown:
            cause = f"there is no column {'.'.join(key)}.{unknown[0]}"
            remedy = "Choose the columns again, each as schema.table.column"
            raise SourceProblem("no_such_column", cause, remedy, field)
        if table is not None:
            found.append((table, names))
    return found


def check_identity(table: TableFacts, tables: list[TableFacts], excluded: frozenset[str]) -> None:
    """Refuse what a column list must have: without it no row has a key here, and UPDATE and DELETE
    fail on the source. A partition may have an identity of its own.
    """
    for one in (table, *leaves_of(table, tables)):
        missing = [name for name in one.identity_columns if name in excluded]
        if not missing:
            continue
        what = f"{one}.{missing[0]} is in the replica identity of {one}"
        if one.replica_identity == "FULL":
            what = f"{one} is under REPLICA IDENTITY FULL, where every column is in the identity"
        raise SourceProblem(
            "identity_column",
            f"{what}: without it rows cannot be told apart, and the application's UPDATE and "
            "DELETE would fail",
            "Mask it instead: the source sends its value, and replview does not keep it",
            "mask",
        )


def table_items(
    tables: list[TableFacts], request: SlotRequest, server_version: int
) -> sql.Composed:
    """As they stand after TABLE: each with its columns, where some are left out."""
    items = []
    for table in tables:
        excluded = request.exclude.get(table.key, frozenset())
        kept = listed_columns(table, excluded, server_version)
        columns = kept if server_version >= _SINCE else None
        items.append(Member(schema=table.schema, name=table.name, columns=columns).item())
    return sql.SQL(", ").join(items)


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
        remedy = "Keep one, or take the whole table out of the publication"
        raise SourceProblem("no_columns", f"no column of {table} would be left", remedy)
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


def rules_for_slot(request: SlotRequest) -> dict[str, dict[str, str]]:
    """As ``Slot.column_rules``. Excluded columns are in it too: belt and braces."""
    rules: dict[str, dict[str, str]] = {}
    for columns, rule in ((request.mask, "mask"), (request.exclude, "drop")):
        for key, names in columns.items():
            rules.setdefault(".".join(key), {}).update(dict.fromkeys(sorted(names), rule))
    return rules


@dataclass(slots=True)
class ColumnChanges:
    """What will run, in this order and in one transaction, and what comes of it."""

    statements: list[sql.Composed] = field(default_factory=list)
    #: ``schema.table.column`` of those that the source sends no more.
    unsent: list[str] = field(default_factory=list)
    #: And of those that it sends again.
    sent: list[str] = field(default_factory=list)
    #: Left out here alone: the source goes on sending them, and why.
    still_sent: dict[str, list[str]] = field(default_factory=dict)
    #: Publications that are altered.
    altered: list[str] = field(default_factory=list)
    #: Tables with a list from now on: later columns of theirs are not in it.
    listed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """A table as one of our publications has it."""

    publication: Publication
    member: Member
    table: TableFacts


def plan_column_changes(
    connection: Connection,
    made: Sequence[str],
    readers: Mapping[str, Sequence[str]],
    left_out: Columns,
) -> ColumnChanges:
    """Look at the source and say what would run. Raises ``SourceProblem`` to refuse.

    ``made``: the publications replview made for the slot; no other is changed. ``readers``: the
    publications of each slot that must go on. ``left_out``: of each table that is meant all columns
    that are to be left out; a table that no publication of ours names is left as it is.
    """
    tables = read_tables(connection)
    publications = read_publications(connection)
    ours = [one for one in publications if one.name in made]
    modern = connection.info.server_version >= _SINCE
    changes = ColumnChanges()
    for table, excluded in known_columns(tables, left_out):
        places = [
            _Place(one, member, table)
            for one in ours
            for member in read_members(connection, one.name)
            if member.key == table.key
        ]
        if not ours or any(place.publication.needs_identity for place in places):
            check_identity(table, tables, excluded)
        if why := _why_still_sent(places, ours, modern=modern):
            names = changes.still_sent.setdefault(why, [])
            names += [f"{table}.{column}" for column in sorted(excluded)]
            continue
        wanted = listed_columns(table, excluded, connection.info.server_version)
        for place in places:
            _check(place, excluded, read_members(connection, place.publication.name))
            _check_clash(place, wanted, publications, readers)
            _change(place, wanted, changes)
    check_alterable(connection, changes.altered)
    return changes


def _why_still_sent(places: list[_Place], ours: list[Publication], *, modern: bool) -> str:
    if not modern:
        return "before 15 a publication sends whole rows"
    if any(one.all_tables for one in ours):
        return "a publication FOR ALL TABLES sends every column"
    return "" if places else "no publication that replview made names the table"


def _check(place: _Place, excluded: frozenset[str], members: list[Member]) -> None:
    """Refuse what PostgreSQL would."""
    name = place.publication.name
    if not excluded:
        return
    if schemas := [member.schema for member in members if not member.name]:
        raise SourceProblem(
            "whole_schema",
            f"publication {name} has all tables of schema {some_of(schemas)}, and beside these "
            "PostgreSQL takes no list of columns",
            "Mask the column instead: the source sends it, replview does not keep its value",
        )
    if place.table.partitioned and not place.publication.via_root:
        raise SourceProblem(
            "not_via_root",
            f"{place.table} is partitioned, and publication {name} does not publish it by its root",
            f"ALTER PUBLICATION {sql.Identifier(name).as_string(None)} SET "
            "(publish_via_partition_root = true)",
        )


def _check_clash(
    place: _Place,
    wanted: tuple[str, ...] | None,
    publications: list[Publication],
    readers: Mapping[str, Sequence[str]],
) -> None:
    """One slot cannot read two publications that give a table different columns."""
    table = place.table
    sent = set(table.columns if wanted is None else wanted) - table.generated
    for slot, names in readers.items():
        if place.publication.name not in names:
            continue
        others = set(names) - {place.publication.name}
        for other in (one for one in publications if one.name in others):
            for entry in other.tables:
                if (
                    entry.key == table.key
                    and set(entry.columns or table.columns) - table.generated != sent
                ):
                    raise SourceProblem(
                        "publications_clash",
                        f"publication {other.name}, which slot {slot} reads too, has other columns "
                        f"of {table}, and one slot cannot read both",
                        f"Take {table} out of one of them first",
                    )


def _change(place: _Place, wanted: tuple[str, ...] | None, changes: ColumnChanges) -> None:
    was, table = place.member.columns, place.table
    if wanted == was or (wanted and was and set(wanted) == set(was)):
        return
    before = set(table.columns if was is None else was) - table.generated
    after = set(table.columns if wanted is None else wanted) - table.generated
    changes.unsent += [f"{table}.{name}" for name in table.columns if name in before - after]
    changes.sent += [f"{table}.{name}" for name in table.columns if name in after - before]
    if wanted is not None:
        changes.listed.append(str(table))
    name = sql.Identifier(place.publication.name)
    member = Member(
        schema=table.schema, name=table.name, columns=wanted, row_filter=place.member.row_filter
    )
    changes.altered.append(place.publication.name)
    changes.statements += [
        sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, sql.Identifier(*table.key)),
        sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, member.item()),
    ]
