"""What is published for a slot that is there, changed table by table and in one transaction.

What is altered is no other publication than replview's own.
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
class Changes:
    """What will run, in this order and in one transaction, and what comes of it."""

    statements: list[sql.Composed] = field(default_factory=list)
    #: ``schema.table`` of those whose changes come from now on.
    joining: list[str] = field(default_factory=list)
    #: Of these only inserts and truncations come: they have no usable identity.
    inserts_only: list[str] = field(default_factory=list)
    #: They were published without updates and deletes, which come from now on.
    whole_now: list[str] = field(default_factory=list)
    #: Those whose changes come no more.
    leaving: list[str] = field(default_factory=list)
    #: Asked for, and published already.
    already: list[str] = field(default_factory=list)
    #: Publications that are made: the slot must read them, too.
    new_publications: list[str] = field(default_factory=list)
    #: Ours that are there, by name.
    own: list[str] = field(default_factory=list)
    #: Publications whose partitions come under their root's name from now on.
    via_root_now: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Own:
    """One of our publications with what is in it, and what will be."""

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
) -> Changes:
    """Look at the source and say what would run. Raises ``SourceProblem`` to refuse.

    ``made``: the publications replview made for the slot; no other is changed. ``left_out``:
    columns by ``schema.table`` that are not to be published of a table that joins.
    """
    server, tables = read_server_facts(connection), read_tables(connection)
    own = _own_of(connection, made, slot_name)
    changes = Changes(own=[one.publication.name for one in own])
    for text in remove:
        _leave(own, text, changes)
    new: dict[str, list[TableFacts]] = {}
    exclude = {
        table.key: columns & frozenset(table.columns)
        for table in tables
        if (columns := (left_out or {}).get(str(table))) is not None
    }
    # Asked for by name alone: what is published is never "all".
    request = SlotRequest(slot_name=slot_name, tables=tuple(add), exclude=exclude)
    if add:
        chosen = chosen_tables(request, tables, server.version)
        check_columns(request, tables, [one for one in chosen if fully_usable(one, tables)])
        check_owned(chosen, tables, may_create=True)
        for table in chosen:
            _join(own, table, fully_usable(table, tables), slot_name, new, changes)
    _check_contradiction(changes)
    for one in own:
        changes.statements += _alterations(one, request, server, changes)
    for name, joining in new.items():
        changes.statements.append(creation(name, joining, request, server))
        changes.new_publications.append(name)
    return changes


def _check_contradiction(changes: Changes) -> None:
    both = set(changes.leaving) & {*changes.joining, *changes.whole_now, *changes.already}
    if both:
        cause = f"table {min(both)} is to be added and removed at once"
        raise SourceProblem("contradiction", cause, "Name it once")


def _own_of(connection: Connection, made: Sequence[str], slot_name: str) -> list[_Own]:
    """Those that were made for the slot. Raises ``SourceProblem`` where none can be altered."""
    own = [
        _Own(publication, publications.read_members(connection, publication.name))
        for publication in publications.read_publications(connection)
        if publication.name in made
    ]
    if not own:
        cause = f"replview made none of the publications that slot {slot_name} reads"
        remedy = "Their owner changes them: ALTER PUBLICATION … ADD TABLE …"
        raise SourceProblem("not_ours", cause, remedy)
    for one in own:
        if one.publication.all_tables:
            cause = f"publication {one.publication.name} is FOR ALL TABLES: every table is in it"
            remedy = "Remove the slot and add it anew with the tables you want"
            raise SourceProblem("all_tables", cause, remedy)
    publications.check_alterable(connection, [one.publication.name for one in own])
    return own


def _leave(own: list[_Own], text: str, changes: Changes) -> None:
    key = table_parts(text)
    found = [(one, member) for one in own for member in one.members if member.key == key]
    for one, member in found:
        one.leaving.append(member)
    if not found:
        raise SourceProblem(
            "not_published",
            f"table {'.'.join(key)} is not named in a publication that replview made for the slot",
            "Correct the name; a partition leaves with its root",
        )
    changes.leaving.append(".".join(key))


def _join(
    own: list[_Own],
    table: TableFacts,
    usable: bool,
    slot_name: str,
    new: dict[str, list[TableFacts]],
    changes: Changes,
) -> None:
    """Into the publication of its kind, out of the one of the other."""
    inside = [(one, member) for one in own for member in one.members if member.key == table.key]
    if any(one.publication.needs_identity for one, _ in inside) or (inside and not usable):
        changes.already.append(str(table))
        return
    for one, member in inside:
        # It has an identity by now: its updates and deletes can come, too.
        if member.row_filter is not None:
            raise SourceProblem(
                "row_filter",
                f"table {table} is published with a row filter, which its updates may not satisfy",
                "Its owner takes the filter away, or moves the table: ALTER PUBLICATION …",
            )
        one.leaving.append(member)
        changes.whole_now.append(str(table))
    if not inside:
        changes.joining.append(str(table))
        if not usable:
            changes.inserts_only.append(str(table))
    target = next((one for one in own if one.publication.needs_identity == usable), None)
    if target is not None:
        target.joining.append(table)
    else:
        new.setdefault(slot_name if usable else f"{slot_name}_inserts", []).append(table)


def _alterations(
    one: _Own, request: SlotRequest, server: ServerFacts, changes: Changes
) -> list[sql.Composed]:
    """SET first, so that what joins is published as it will be."""
    name = sql.Identifier(one.publication.name)
    found = []
    partitioned = any(table.partitioned for table in one.joining)
    if server.version >= 130000 and one.publication.via_root is False and partitioned:
        changes.via_root_now.append(one.publication.name)
        by_root = sql.SQL("ALTER PUBLICATION {} SET (publish_via_partition_root = true)")
        found.append(by_root.format(name))
    if one.leaving:
        tables = sql.SQL(", ").join(sql.Identifier(*m.key) for m in one.leaving)
        found.append(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, tables))
    if one.joining:
        tables = table_items(one.joining, request, server.version)
        found.append(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, tables))
    return found
