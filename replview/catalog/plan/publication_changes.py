"""This module plans changes to what is published for a slot, by table and in one transaction.

Only publications that replview made are altered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from replview.catalog import publications
from replview.catalog.connections import Connection
from replview.catalog.naming import table_parts
from replview.catalog.plan.columns import check_columns, table_items
from replview.catalog.plan.publications import creation
from replview.catalog.plan.slot_request import SlotRequest, check_owned, chosen_tables, fully_usable
from replview.catalog.problems import SourceProblem
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.tables import TableFacts, read_tables


@dataclass(slots=True)
class PublicationChanges:
    """The statements that will run, in order and in one transaction, and their effects."""

    statements: list[sql.Composed] = field(default_factory=list)
    #: Tables (``schema.table``) that are newly published.
    joining: list[str] = field(default_factory=list)
    #: Newly published tables without a usable identity: only inserts and truncations are sent.
    inserts_only: list[str] = field(default_factory=list)
    #: Tables whose updates and deletes are newly published.
    whole_now: list[str] = field(default_factory=list)
    #: Tables that are no longer published.
    leaving: list[str] = field(default_factory=list)
    #: Requested tables that are published already.
    already: list[str] = field(default_factory=list)
    #: Publications that are created, and that the slot must read too.
    new_publications: list[str] = field(default_factory=list)
    #: Names of the existing publications that replview made.
    own: list[str] = field(default_factory=list)
    #: Publications that will publish partitions under their root's name.
    via_root_now: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _OwnPublication:
    """A publication that replview made, with its members and the changes to them."""

    publication: publications.Publication
    members: list[publications.Member]
    joining: list[TableFacts] = field(default_factory=list)
    leaving: list[publications.Member] = field(default_factory=list)


def plan_changes(
    connection: Connection,
    slot_name: str,
    made: Sequence[str],
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    left_out: Mapping[str, frozenset[str]] | None = None,
) -> PublicationChanges:
    """Read the source and return what would run. Raises ``SourceProblem`` to refuse.

    ``made`` are the publications that replview made for the slot; no other is changed. ``left_out``
    are columns, by ``schema.table``, that are not to be published if the table is added.
    """
    server, tables = read_server_facts(connection), read_tables(connection)
    owned = _read_own(connection, made, slot_name)
    changes = PublicationChanges(own=[own.publication.name for own in owned])
    for text in remove:
        _remove_table(owned, text, changes)
    new: dict[str, list[TableFacts]] = {}
    exclude = {
        table.key: columns & frozenset(table.columns)
        for table in tables
        if (columns := (left_out or {}).get(str(table))) is not None
    }
    # The request names its tables, as an empty list would mean all tables.
    request = SlotRequest(slot_name=slot_name, tables=tuple(add), exclude=exclude)
    if add:
        chosen = chosen_tables(request, tables, server.version)
        check_columns(request, tables, [t for t in chosen if fully_usable(t, tables)])
        check_owned(chosen, tables, may_create=True)
        for table in chosen:
            _add_table(owned, table, fully_usable(table, tables), slot_name, new, changes)
    _check_contradiction(changes)
    for own in owned:
        changes.statements += _alterations(own, request, server, changes)
    for name, joining in new.items():
        changes.statements.append(creation(name, joining, request, server))
        changes.new_publications.append(name)
    return changes


def _check_contradiction(changes: PublicationChanges) -> None:
    contradictory = set(changes.leaving) & {*changes.joining, *changes.whole_now, *changes.already}
    if contradictory:
        cause = f"table {min(contradictory)} is named both to add and to remove"
        raise SourceProblem("contradiction", cause, "Name it only once")


def _read_own(connection: Connection, made: Sequence[str], slot_name: str) -> list[_OwnPublication]:
    """Return the publications made for the slot.

    Raises ``SourceProblem`` where there is none, or one cannot be altered.
    """
    owned = [
        _OwnPublication(publication, publications.read_members(connection, publication.name))
        for publication in publications.read_publications(connection)
        if publication.name in made
    ]
    if not owned:
        cause = f"replview created none of the publications that slot {slot_name} reads"
        remedy = "Ask their owner to change them: ALTER PUBLICATION … ADD TABLE …"
        raise SourceProblem("not_ours", cause, remedy)
    for own in owned:
        if own.publication.all_tables:
            cause = f"publication {own.publication.name} is FOR ALL TABLES: every table is in it"
            remedy = "Remove the slot and add it again with the tables you want"
            raise SourceProblem("all_tables", cause, remedy)
    publications.check_alterable(connection, [own.publication.name for own in owned])
    return owned


def _remove_table(owned: list[_OwnPublication], text: str, changes: PublicationChanges) -> None:
    key = table_parts(text)
    members = [(own, member) for own in owned for member in own.members if member.key == key]
    for own, member in members:
        own.leaving.append(member)
    if not members:
        raise SourceProblem(
            "not_published",
            f"table {'.'.join(key)} is not named in a publication that replview created for the "
            "slot",
            "Correct the name; a partition is removed together with its partitioned table",
        )
    changes.leaving.append(".".join(key))


def _add_table(
    owned: list[_OwnPublication],
    table: TableFacts,
    usable: bool,
    slot_name: str,
    new: dict[str, list[TableFacts]],
    changes: PublicationChanges,
) -> None:
    """Add the table to the publication for its identity, and remove it from the other.

    There is one publication for all operations and one for inserts and truncations only.
    """
    members = [(own, member) for own in owned for member in own.members if member.key == table.key]
    if any(own.publication.needs_identity for own, _ in members) or (members and not usable):
        changes.already.append(str(table))
        return
    for own, member in members:
        # The table has an identity by now, so its updates and deletes can be published too.
        if member.row_filter is not None:
            raise SourceProblem(
                "row_filter",
                f"table {table} is published with a row filter, which its updates may not satisfy",
                "Ask its owner to remove the row filter: ALTER PUBLICATION …",
            )
        own.leaving.append(member)
        changes.whole_now.append(str(table))
    if not members:
        changes.joining.append(str(table))
        if not usable:
            changes.inserts_only.append(str(table))
    target = next((own for own in owned if own.publication.needs_identity == usable), None)
    if target is not None:
        target.joining.append(table)
    else:
        new.setdefault(slot_name if usable else f"{slot_name}_inserts", []).append(table)


def _alterations(
    own: _OwnPublication, request: SlotRequest, server: ServerFacts, changes: PublicationChanges
) -> list[sql.Composed]:
    """Return the statements for one publication.

    SET comes first, so that an added table is published with the new option from the start.
    """
    name = sql.Identifier(own.publication.name)
    statements = []
    partitioned = any(table.partitioned for table in own.joining)
    if server.version >= 130000 and own.publication.via_root is False and partitioned:
        changes.via_root_now.append(own.publication.name)
        by_root = sql.SQL("ALTER PUBLICATION {} SET (publish_via_partition_root = true)")
        statements.append(by_root.format(name))
    if own.leaving:
        tables = sql.SQL(", ").join(sql.Identifier(*m.key) for m in own.leaving)
        statements.append(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, tables))
    if own.joining:
        tables = table_items(own.joining, request, server.version)
        statements.append(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, tables))
    return statements
