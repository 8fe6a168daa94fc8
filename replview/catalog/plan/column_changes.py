"""Which columns of published tables leave the source, changed: column lists, 15 and later.

A table gets another list by leaving its publication and joining it again, both in one transaction:
so no other table is named, locked, or loses a list or a row filter that somebody else gave it
meanwhile, as with SET TABLE. Its own row filter is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.doctor.findings import some_of
from replview.catalog.plan.column_rules import known_columns, listed_columns
from replview.catalog.plan.slot_request import Columns, refuse
from replview.catalog.publications import (
    Member,
    Publication,
    owned_publications,
    read_members,
    read_publications,
)
from replview.catalog.tables import TableFacts, leaves_of, read_tables

#: Before it a publication has no column lists.
_SINCE = 150000


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
    for table, excluded in known_columns(tables, left_out, "Look at the table's columns again"):
        places = [
            _Place(one, member, table)
            for one in ours
            for member in read_members(connection, one.name)
            if member.key == (table.schema, table.name)
        ]
        if not ours or any(place.publication.needs_identity for place in places):
            # A partition may have an identity of its own.
            for one in (table, *leaves_of(table, tables)):
                _check_identity(one, excluded)
        why = _why_still_sent(places, ours, modern=modern)
        if why:
            names = changes.still_sent.setdefault(why, [])
            names += [f"{table}.{column}" for column in sorted(excluded)]
            continue
        wanted = listed_columns(table, excluded, connection.info.server_version)
        for place in places:
            _check(place, excluded, read_members(connection, place.publication.name))
            _check_clash(place, wanted, publications, readers)
            _change(place, wanted, changes)
    _check_owned(connection, changes)
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
    if schemas := [member.schema for member in members if member.name is None]:
        raise refuse(
            "whole_schema",
            f"publication {name} has all tables of schema {some_of(schemas)}, and beside these "
            "PostgreSQL takes no list of columns",
            "Mask the column instead: the source sends it, replview does not keep its value",
        )
    if place.table.partitioned and not place.publication.via_root:
        raise refuse(
            "not_via_root",
            f"{place.table} is partitioned, and publication {name} does not publish it by its root",
            f"ALTER PUBLICATION {sql.Identifier(name).as_string(None)} SET "
            "(publish_via_partition_root = true)",
        )


def _check_identity(table: TableFacts, excluded: frozenset[str]) -> None:
    """Without it no row has a key here, and UPDATE and DELETE fail on the source."""
    missing = [name for name in table.identity_columns if name in excluded]
    if not missing:
        return
    what = f"{table}.{missing[0]} is in the replica identity of {table}"
    if table.replica_identity == "FULL":
        what = f"{table} is under REPLICA IDENTITY FULL, where every column is in the identity"
    raise refuse(
        "identity_column",
        f"{what}: without it rows cannot be told apart, and the application's UPDATE and DELETE "
        "would fail",
        "Mask it instead: the source sends it, replview does not keep its value",
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
        for other in publications:
            if other.name == place.publication.name or other.name not in names:
                continue
            for entry in other.tables:
                same = (entry.schema, entry.name) == (table.schema, table.name)
                if same and set(entry.columns or table.columns) - table.generated != sent:
                    raise refuse(
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
        sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(
            name, sql.Identifier(table.schema, table.name)
        ),
        sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, member.item()),
    ]


def _check_owned(connection: Connection, changes: ColumnChanges) -> None:
    mine = owned_publications(connection)
    if foreign := [name for name in changes.altered if name not in mine]:
        raise refuse(
            "not_owner",
            f"the role does not own publication {foreign[0]}, and only its owner can alter it",
            f"ALTER PUBLICATION {sql.Identifier(foreign[0]).as_string(None)} OWNER TO the role",
        )
