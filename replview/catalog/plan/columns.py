"""This module plans which columns are left out, for a new slot or one that exists.

They are left out of the publication where possible (column lists, 15 and later), and of the store.
To change its list, a table is dropped from its publication and added again, in one transaction.
Unlike SET TABLE, this does not name or lock other tables, nor remove a column list or row filter
that somebody else set meanwhile. The row filter of the table is kept.
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

#: The first server version with column lists.
_SINCE = 150000


def check_columns(
    request: SlotRequest, tables: list[TableFacts], usable: list[TableFacts] | None
) -> None:
    """Raise ``SourceProblem`` for unknown columns, and for those that UPDATE and DELETE need.

    ``usable`` are the tables whose updates we publish. None: the publications are not ours, and the
    identity of every table counts.
    """
    known_columns(tables, request.mask, "mask")
    for table, names in known_columns(tables, request.exclude, "exclude"):
        if usable is None or table in usable:
            check_identity(table, tables, names)


def known_columns(
    tables: list[TableFacts], columns: Columns, field: str = ""
) -> list[tuple[TableFacts, frozenset[str]]]:
    """Return the tables with their columns. Raises ``SourceProblem`` for unknown columns.

    ``field`` is the field of the request that named them.
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
    """Raise ``SourceProblem`` if an excluded column is in the replica identity.

    Without it rows have no key here, and UPDATE and DELETE fail on the source. The partitions are
    checked too, as each may have its own identity.
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
    """Return the tables as they are written after TABLE, with column lists where needed."""
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
    """Return the column list of a table; None: no column is left out, so it needs no list."""
    if not excluded:
        return None
    # Before 18 a list may not name generated columns, since 18 not virtual ones.
    computed = table.generated if server_version < 180000 else table.virtual
    kept = tuple(name for name in table.columns if name not in excluded | computed)
    if not kept:
        remedy = "Keep one, or take the whole table out of the publication"
        raise SourceProblem("no_columns", f"no column of {table} would be left", remedy)
    return kept


def must_be_sent(table: TableFacts, tables: list[TableFacts], column: str) -> str:
    """Return why a column cannot be left out of a publication; empty: it can."""
    if not fully_usable(table, tables):
        return ""
    for one in (table, *leaves_of(table, tables)):
        if column in one.identity_columns:
            what = "the whole row" if one.replica_identity == "FULL" else "it"
            return f"{what} tells this table's rows apart"
    return ""


def rules_for_slot(request: SlotRequest) -> dict[str, dict[str, str]]:
    """Return ``Slot.column_rules``.

    Excluded columns are included, in case the source sends them nevertheless.
    """
    rules: dict[str, dict[str, str]] = {}
    for columns, rule in ((request.mask, "mask"), (request.exclude, "drop")):
        for key, names in columns.items():
            rules.setdefault(".".join(key), {}).update(dict.fromkeys(sorted(names), rule))
    return rules


@dataclass(slots=True)
class ColumnChanges:
    """The statements that will run, in order and in one transaction, and their effects."""

    statements: list[sql.Composed] = field(default_factory=list)
    #: Columns (``schema.table.column``) that the source will no longer send.
    unsent: list[str] = field(default_factory=list)
    #: Columns that the source will send again.
    sent: list[str] = field(default_factory=list)
    #: Columns that only the store leaves out, by the reason why the source still sends them.
    still_sent: dict[str, list[str]] = field(default_factory=dict)
    #: Names of the publications that are altered.
    altered: list[str] = field(default_factory=list)
    #: Tables that get a column list, which will not include columns added later.
    listed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _PublicationMember:
    """A table as a member of one of our publications."""

    publication: Publication
    member: Member
    table: TableFacts


def plan_column_changes(
    connection: Connection,
    made: Sequence[str],
    readers: Mapping[str, Sequence[str]],
    left_out: Columns,
) -> ColumnChanges:
    """Read the source and return what would run. Raises ``SourceProblem`` to refuse.

    ``made`` are the publications that replview made for the slot; no other is changed. ``readers``
    are the publications of each slot that must continue. ``left_out`` has all columns to leave out,
    for each table to change. A table that no publication of ours names stays as it is.
    """
    tables = read_tables(connection)
    publications = read_publications(connection)
    ours = [one for one in publications if one.name in made]
    modern = connection.info.server_version >= _SINCE
    changes = ColumnChanges()
    for table, excluded in known_columns(tables, left_out):
        places = [
            _PublicationMember(one, member, table)
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


def _why_still_sent(
    places: list[_PublicationMember], ours: list[Publication], *, modern: bool
) -> str:
    if not modern:
        return "before 15 a publication sends whole rows"
    if any(one.all_tables for one in ours):
        return "a publication FOR ALL TABLES sends every column"
    return "" if places else "no publication that replview made names the table"


def _check(place: _PublicationMember, excluded: frozenset[str], members: list[Member]) -> None:
    """Raise ``SourceProblem`` where PostgreSQL would refuse the column list."""
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
    place: _PublicationMember,
    wanted: tuple[str, ...] | None,
    publications: list[Publication],
    readers: Mapping[str, Sequence[str]],
) -> None:
    """Raise ``SourceProblem`` if one slot would read different columns from two publications."""
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


def _change(
    place: _PublicationMember, wanted: tuple[str, ...] | None, changes: ColumnChanges
) -> None:
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
