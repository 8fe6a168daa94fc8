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
from replview.text.formats import some_of

#: The first server version with column lists.
_COLUMN_LISTS_SINCE = 150000


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
    chosen = []
    for key, names in columns.items():
        table = by_name.get(key)
        unknown = sorted(names if table is None else names - set(table.columns))
        if unknown:
            cause = f"there is no column {'.'.join(key)}.{unknown[0]}"
            remedy = "Choose the columns again, each as schema.table.column"
            raise SourceProblem("no_such_column", cause, remedy, field)
        if table is not None:
            chosen.append((table, names))
    return chosen


def check_identity(table: TableFacts, tables: list[TableFacts], excluded: frozenset[str]) -> None:
    """Raise ``SourceProblem`` if an excluded column is in the replica identity.

    Without it rows have no key here, and UPDATE and DELETE fail on the source. The partitions are
    checked too, as each may have its own identity.
    """
    for relation in (table, *leaves_of(table, tables)):
        missing = [name for name in relation.identity_columns if name in excluded]
        if not missing:
            continue
        cause = f"{relation}.{missing[0]} is in the replica identity of {relation}"
        if relation.replica_identity == "FULL":
            cause = (
                f"{relation} is under REPLICA IDENTITY FULL, where every column is in the identity"
            )
        raise SourceProblem(
            "identity_column",
            f"{cause}: if it is not published, the application's UPDATE and DELETE would fail",
            "Mask it instead: the source sends its value, and replview does not store it",
            "mask",
        )


def table_items(
    tables: list[TableFacts], request: SlotRequest, server_version: int
) -> sql.Composed:
    """Return the tables as they are written after TABLE, with column lists where needed."""
    items = []
    for table in tables:
        excluded = request.exclude.get(table.key, frozenset())
        column_list = listed_columns(table, excluded, server_version)
        columns = column_list if server_version >= _COLUMN_LISTS_SINCE else None
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
    remaining = tuple(name for name in table.columns if name not in excluded | computed)
    if not remaining:
        remedy = "Keep at least one column, or remove the whole table"
        raise SourceProblem("no_columns", f"no column of {table} would be left", remedy)
    return remaining


def must_be_sent(table: TableFacts, tables: list[TableFacts], column: str) -> str:
    """Return why a column cannot be left out of a publication; empty: it can."""
    if not fully_usable(table, tables):
        return ""
    for relation in (table, *leaves_of(table, tables)):
        if column in relation.identity_columns:
            subject = "the whole row" if relation.replica_identity == "FULL" else "it"
            return f"{subject} identifies this table's rows"
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
    owned = [publication for publication in publications if publication.name in made]
    modern = connection.info.server_version >= _COLUMN_LISTS_SINCE
    changes = ColumnChanges()
    for table, excluded in known_columns(tables, left_out):
        memberships = [
            _PublicationMember(publication, member, table)
            for publication in owned
            for member in read_members(connection, publication.name)
            if member.key == table.key
        ]
        if not owned or any(membership.publication.needs_identity for membership in memberships):
            check_identity(table, tables, excluded)
        if reason := _why_still_sent(memberships, owned, modern=modern):
            names = changes.still_sent.setdefault(reason, [])
            names += [f"{table}.{column}" for column in sorted(excluded)]
            continue
        column_list = listed_columns(table, excluded, connection.info.server_version)
        for membership in memberships:
            _check_list_allowed(
                membership, excluded, read_members(connection, membership.publication.name)
            )
            _check_clash(membership, column_list, publications, readers)
            _add_change(membership, column_list, changes)
    check_alterable(connection, changes.altered)
    return changes


def _why_still_sent(
    memberships: list[_PublicationMember], owned: list[Publication], *, modern: bool
) -> str:
    if not modern:
        return "before PostgreSQL 15 a publication sends whole rows"
    if any(publication.all_tables for publication in owned):
        return "a publication FOR ALL TABLES sends every column"
    return "" if memberships else "no publication that replview created names the table"


def _check_list_allowed(
    membership: _PublicationMember, excluded: frozenset[str], members: list[Member]
) -> None:
    """Raise ``SourceProblem`` where PostgreSQL would refuse the column list."""
    name = membership.publication.name
    if not excluded:
        return
    if schemas := [member.schema for member in members if not member.name]:
        raise SourceProblem(
            "whole_schema",
            f"publication {name} has all tables of schema {some_of(schemas)}, and PostgreSQL then "
            "allows no column list",
            "Mask the column instead: the source sends its value, and replview does not store it",
        )
    if membership.table.partitioned and not membership.publication.via_root:
        raise SourceProblem(
            "not_via_root",
            f"{membership.table} is partitioned, and publication {name} does not have "
            "publish_via_partition_root, which a column list needs",
            f"ALTER PUBLICATION {sql.Identifier(name).as_string(None)} SET "
            "(publish_via_partition_root = true)",
        )


def _check_clash(
    membership: _PublicationMember,
    column_list: tuple[str, ...] | None,
    publications: list[Publication],
    readers: Mapping[str, Sequence[str]],
) -> None:
    """Raise ``SourceProblem`` if one slot would read different columns from two publications."""
    table = membership.table
    sent = set(table.columns if column_list is None else column_list) - table.generated
    for slot, names in readers.items():
        if membership.publication.name not in names:
            continue
        other_names = set(names) - {membership.publication.name}
        for other in (
            publication for publication in publications if publication.name in other_names
        ):
            for entry in other.tables:
                if (
                    entry.key == table.key
                    and set(entry.columns or table.columns) - table.generated != sent
                ):
                    raise SourceProblem(
                        "publications_clash",
                        f"publication {other.name}, which slot {slot} reads too, publishes "
                        f"other columns of {table}, and one slot cannot read both",
                        f"Remove {table} from one of them first",
                    )


def _add_change(
    membership: _PublicationMember, column_list: tuple[str, ...] | None, changes: ColumnChanges
) -> None:
    former_list, table = membership.member.columns, membership.table
    if column_list == former_list or (
        column_list and former_list and set(column_list) == set(former_list)
    ):
        return
    sent_before = set(table.columns if former_list is None else former_list) - table.generated
    sent_after = set(table.columns if column_list is None else column_list) - table.generated
    changes.unsent += [
        f"{table}.{name}" for name in table.columns if name in sent_before - sent_after
    ]
    changes.sent += [
        f"{table}.{name}" for name in table.columns if name in sent_after - sent_before
    ]
    if column_list is not None:
        changes.listed.append(str(table))
    name = sql.Identifier(membership.publication.name)
    member = Member(
        schema=table.schema,
        name=table.name,
        columns=column_list,
        row_filter=membership.member.row_filter,
    )
    changes.altered.append(membership.publication.name)
    changes.statements += [
        sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, sql.Identifier(*table.key)),
        sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, member.item()),
    ]
