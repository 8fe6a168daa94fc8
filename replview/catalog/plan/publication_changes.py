"""Which tables a slot's own publications publish, changed: ALTER PUBLICATION, table by table.

As when they were made: a table without a usable replica identity goes into the publication that
publishes only inserts and truncations, since publishing its updates would make the application's
own UPDATE and DELETE fail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.naming import table_parts
from replview.catalog.plan import slot_request as wishes
from replview.catalog.plan.column_rules import check_columns, table_items
from replview.catalog.plan.slot_request import Wish, refuse
from replview.catalog.publications import (
    Member,
    Publication,
    owned_publications,
    read_members,
    read_publications,
)
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

    publication: Publication
    members: list[Member]
    joining: list[TableFacts] = field(default_factory=list)
    leaving: list[Member] = field(default_factory=list)

    def member(self, table: TableFacts) -> Member | None:
        """The table in it."""
        return next((m for m in self.members if (m.schema, m.name) == _key(table)), None)


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
    own = _read_own(connection, made)
    _check_own(connection, own, slot_name)
    changes = Changes(own=[one.publication.name for one in own])
    for text in remove:
        _leave(own, text, changes)
    new: dict[str, list[TableFacts]] = {}
    # Asked for by name alone: what is published is never "all".
    wish = Wish(slot_name=slot_name, tables=tuple(add), exclude=_exclude(tables, left_out or {}))
    if add:
        chosen = wishes.chosen_tables(wish, tables, server.version)
        usable = [table for table in chosen if wishes.fully_usable(table, tables)]
        check_columns(wish, tables, usable)
        wishes.check_owned(chosen, tables, may_create=True)
        for table in chosen:
            _join(own, table, wishes.fully_usable(table, tables), slot_name, new, changes)
    _check_contradiction(changes)
    for one in own:
        changes.statements += _alterations(one, wish, server, changes)
    for name, joining in new.items():
        changes.statements.append(_creation(name, joining, wish, server))
        changes.new_publications.append(name)
    return changes


def _exclude(tables: list[TableFacts], left_out: Mapping[str, frozenset[str]]) -> wishes.Columns:
    """As a wish has them; of columns that are there."""
    return {
        _key(table): left_out[str(table)] & frozenset(table.columns)
        for table in tables
        if str(table) in left_out
    }


def _read_own(connection: Connection, made: Sequence[str]) -> list[_Own]:
    return [
        _Own(publication, read_members(connection, publication.name))
        for publication in read_publications(connection)
        if publication.name in made
    ]


def _check_own(connection: Connection, own: list[_Own], slot_name: str) -> None:
    if not own:
        raise refuse(
            "not_ours",
            f"replview made none of the publications that slot {slot_name} reads",
            "Their owner changes them: ALTER PUBLICATION … ADD TABLE …",
        )
    mine = owned_publications(connection)
    for one in own:
        name = one.publication.name
        if one.publication.all_tables:
            raise refuse(
                "all_tables",
                f"publication {name} is FOR ALL TABLES: every table is in it",
                "Remove the slot and add it anew with the tables you want",
            )
        if name not in mine:
            raise refuse(
                "not_owner",
                f"the role does not own publication {name}, and only its owner can alter it",
                f"ALTER PUBLICATION {sql.Identifier(name).as_string(None)} OWNER TO the role",
            )


def _leave(own: list[_Own], text: str, changes: Changes) -> None:
    key = table_parts(text)
    found = False
    for one in own:
        for member in one.members:
            if (member.schema, member.name) == key:
                one.leaving.append(member)
                found = True
    if not found:
        raise refuse(
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
    inside = [one for one in own if one.member(table) is not None]
    if any(one.publication.needs_identity for one in inside) or (inside and not usable):
        changes.already.append(str(table))
        return
    for one in inside:
        # It has an identity by now: its updates and deletes can come, too.
        member = one.member(table)
        assert member is not None
        if member.row_filter is not None:
            raise refuse(
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


def _check_contradiction(changes: Changes) -> None:
    both = set(changes.leaving) & {*changes.joining, *changes.whole_now, *changes.already}
    if both:
        raise refuse(
            "contradiction",
            f"table {min(both)} is to be added and removed at once",
            "Name it once",
        )


def _alterations(
    one: _Own, wish: Wish, server: ServerFacts, changes: Changes
) -> list[sql.Composed]:
    """SET first, so that what joins is published as it will be."""
    name = sql.Identifier(one.publication.name)
    found = []
    if (
        server.version >= 130000
        and one.publication.via_root is False
        and any(table.partitioned for table in one.joining)
    ):
        changes.via_root_now.append(one.publication.name)
        found.append(
            sql.SQL("ALTER PUBLICATION {} SET (publish_via_partition_root = true)").format(name)
        )
    if one.leaving:
        tables = sql.SQL(", ").join(sql.Identifier(m.schema, m.name or "") for m in one.leaving)
        found.append(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, tables))
    if one.joining:
        tables = table_items(one.joining, wish, server.version)
        found.append(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, tables))
    return found


def _creation(name: str, tables: list[TableFacts], wish: Wish, server: ServerFacts) -> sql.Composed:
    options = [] if name == wish.slot_name else [sql.SQL("publish = 'insert, truncate'")]
    if server.version >= 130000 and any(table.partitioned for table in tables):
        options.append(sql.SQL("publish_via_partition_root = true"))
    items = table_items(tables, wish, server.version)
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), items)
    if options:
        statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
    return statement


def _key(table: TableFacts) -> tuple[str, str]:
    return table.schema, table.name
