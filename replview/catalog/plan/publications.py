"""The publications of a slot: made table by table for a new one, altered table by table later.

A table without a usable replica identity goes into a second publication that publishes only its
inserts and truncations: publishing its updates would make the application's own UPDATE and DELETE
fail. What is made is no other publication than replview's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.naming import LONGEST_NAME_BYTES, some_of, table_parts
from replview.catalog.plan.columns import check_columns, table_items
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.slot_request import (
    Columns,
    SlotRequest,
    check_owned,
    chosen_tables,
    fully_usable,
)
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import (
    Member,
    Publication,
    check_alterable,
    read_members,
    read_publications,
)
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.tables import TableFacts, read_tables
from replview.text.problem import Note

_ONE_BY_ONE = "Have the tables published one by one"
#: What naming tables in a publication costs the source.
TABLES_COST = (
    "a moment's lock on each table that lets reads and writes pass (SHARE UPDATE EXCLUSIVE: it "
    "waits for VACUUM, ANALYZE and ALTER TABLE)"
)


def publication_steps(
    connection: Connection,
    request: SlotRequest,
    server: ServerFacts,
    remade: Sequence[Statement] = (),
) -> tuple[list[Statement], list[Note]]:
    """The CREATE PUBLICATION statements, and what the user should know of them."""
    known = {publication.name for publication in read_publications(connection)}
    known |= {step.name for step in remade}
    tables = read_tables(connection)
    if request.publications:
        if missing := [name for name in request.publications if name not in known]:
            raise SourceProblem(
                "no_such_publication",
                f"there is no publication {some_of(missing)} in {server.database}",
                "Choose others, or have one made",
                "publications",
            )
        check_columns(request, tables, None)
        notes = ["the publications are used as they are"]
        if request.exclude:
            notes.append("excluded columns are still sent by the source; replview keeps none")
        return list(remade), list(map(Note, notes))
    chosen = chosen_tables(request, tables, server.version)
    check_owned(chosen, tables, server.may_create)
    usable = [table for table in chosen if fully_usable(table, tables)]
    unusable = [table for table in chosen if table not in usable]
    check_columns(request, tables, usable)
    if request.all_tables:
        return [_all_tables_step(request, server, unusable, known)], all_tables_notes(unusable)
    steps = [
        _step(name, tables, request, server, known)
        for name, tables in (
            (request.slot_name, usable),
            (f"{request.slot_name}_inserts", unusable),
        )
        if tables
    ]
    return steps, _notes(unusable, chosen, request, server)


def _notes(
    unusable: list[TableFacts], chosen: list[TableFacts], request: SlotRequest, server: ServerFacts
) -> list[Note]:
    notes = ["tables created later are not in the publication: ALTER PUBLICATION … ADD TABLE"]
    if unusable:
        notes.append(
            "only inserts and truncations are published of tables without a usable replica "
            f"identity: {some_of([str(table) for table in unusable])}"
        )
    if any(table.partitioned for table in chosen):
        notes.append("partitioned tables are published by their root, under its name")
    if request.exclude and server.version < 150000:
        notes.append("before 15 excluded columns are still sent by the source; replview keeps none")
    return list(map(Note, notes))


def _step(
    name: str, tables: list[TableFacts], request: SlotRequest, server: ServerFacts, known: set[str]
) -> Statement:
    _check_new_name(name, known)
    return Statement(
        sql=_creation(name, tables, request, server).as_string(None),
        undo=drop_publication(name),
        needs="CREATE on the database, and ownership of the tables",
        costs=TABLES_COST,
        kind="publication",
        name=name,
    )


def _creation(
    name: str, tables: list[TableFacts], request: SlotRequest, server: ServerFacts
) -> sql.Composed:
    """CREATE PUBLICATION for these tables; one that has not the slot's name takes no updates."""
    options = [] if name == request.slot_name else [sql.SQL("publish = 'insert, truncate'")]
    if server.version >= 130000 and any(table.partitioned for table in tables):
        options.append(sql.SQL("publish_via_partition_root = true"))
    items = table_items(tables, request, server.version)
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), items)
    if options:
        statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
    return statement


def _all_tables_step(
    request: SlotRequest, server: ServerFacts, unusable: list[TableFacts], known: set[str]
) -> Statement:
    """FOR ALL TABLES, where no table suffers from it but those that were agreed to."""
    if suffering := [str(table) for table in unusable if table.text not in request.breaking]:
        raise SourceProblem(
            "unusable_tables",
            "FOR ALL TABLES would make UPDATE and DELETE fail on tables without a usable replica "
            f"identity: {some_of(suffering)}",
            _ONE_BY_ONE,
            "all_tables",
        )
    if not server.superuser:
        raise SourceProblem(
            "not_superuser",
            "FOR ALL TABLES needs a superuser",
            _ONE_BY_ONE,
            "all_tables",
        )
    if request.exclude:
        raise SourceProblem(
            "all_tables_columns",
            "FOR ALL TABLES cannot leave columns out",
            "Mask the columns instead, or have the tables published one by one",
            "mask",
        )
    _check_new_name(request.slot_name, known)
    name = sql.Identifier(request.slot_name)
    statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(name)
    if server.version >= 130000:
        statement += sql.SQL(" WITH (publish_via_partition_root = true)")
    return Statement(
        sql=statement.as_string(None),
        undo=drop_publication(request.slot_name),
        needs="superuser",
        costs=_all_tables_costs(unusable),
        kind="publication",
        name=request.slot_name,
    )


def all_tables_notes(unusable: list[TableFacts]) -> list[Note]:
    """What FOR ALL TABLES means, the danger first."""
    notes = [
        "tables made later are recorded from their first row on; no column of any table can be "
        "left out at the source, only masked here"
    ]
    if unusable:
        notes.insert(
            0,
            "on the source UPDATE and DELETE fail from then on, for everybody, on "
            f"{some_of([str(table) for table in unusable])}: without a usable replica identity "
            "PostgreSQL refuses them while they are published",
        )
    return list(map(Note, notes))


def _all_tables_costs(unusable: list[TableFacts]) -> str:
    now = "nothing now"
    if unusable:
        now = f"UPDATE and DELETE fail at once on {some_of([str(table) for table in unusable])}"
    return f"{now}; every later table without a primary key refuses UPDATE and DELETE"


def _check_new_name(name: str, known: set[str]) -> None:
    if len(name.encode()) > LONGEST_NAME_BYTES:
        raise SourceProblem(
            "bad_publication_name",
            f"publication {name} would have more than {LONGEST_NAME_BYTES} bytes",
            "Choose a shorter slot name",
        )
    if name in known:
        raise SourceProblem(
            "publication_exists",
            f"there is already a publication {name}",
            "Use it as it is, or choose another slot name",
            "publications",
        )


def drop_publication(name: str) -> str:
    """What takes the making of one back."""
    return sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(name)).as_string(None)


# Changing what is published, in one transaction.


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
        return next((m for m in self.members if m.key == table.key), None)


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
    request = SlotRequest(
        slot_name=slot_name, tables=tuple(add), exclude=_exclude(tables, left_out or {})
    )
    if add:
        chosen = chosen_tables(request, tables, server.version)
        usable = [table for table in chosen if fully_usable(table, tables)]
        check_columns(request, tables, usable)
        check_owned(chosen, tables, may_create=True)
        for table in chosen:
            _join(own, table, fully_usable(table, tables), slot_name, new, changes)
    _check_contradiction(changes)
    for one in own:
        changes.statements += _alterations(one, request, server, changes)
    for name, joining in new.items():
        changes.statements.append(_creation(name, joining, request, server))
        changes.new_publications.append(name)
    return changes


def _exclude(tables: list[TableFacts], left_out: Mapping[str, frozenset[str]]) -> Columns:
    """As a request has them; of columns that are there."""
    return {
        table.key: left_out[str(table)] & frozenset(table.columns)
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
        raise SourceProblem(
            "not_ours",
            f"replview made none of the publications that slot {slot_name} reads",
            "Their owner changes them: ALTER PUBLICATION … ADD TABLE …",
        )
    for one in own:
        if one.publication.all_tables:
            raise SourceProblem(
                "all_tables",
                f"publication {one.publication.name} is FOR ALL TABLES: every table is in it",
                "Remove the slot and add it anew with the tables you want",
            )
    check_alterable(connection, [one.publication.name for one in own])


def _leave(own: list[_Own], text: str, changes: Changes) -> None:
    key = table_parts(text)
    found = False
    for one in own:
        for member in one.members:
            if member.key == key:
                one.leaving.append(member)
                found = True
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
    inside = [one for one in own if one.member(table) is not None]
    if any(one.publication.needs_identity for one in inside) or (inside and not usable):
        changes.already.append(str(table))
        return
    for one in inside:
        # It has an identity by now: its updates and deletes can come, too.
        member = one.member(table)
        assert member is not None
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


def _check_contradiction(changes: Changes) -> None:
    both = set(changes.leaving) & {*changes.joining, *changes.whole_now, *changes.already}
    if both:
        raise SourceProblem(
            "contradiction",
            f"table {min(both)} is to be added and removed at once",
            "Name it once",
        )


def _alterations(
    one: _Own, request: SlotRequest, server: ServerFacts, changes: Changes
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
        tables = sql.SQL(", ").join(sql.Identifier(*m.key) for m in one.leaving)
        found.append(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, tables))
    if one.joining:
        tables = table_items(one.joining, request, server.version)
        found.append(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, tables))
    return found
