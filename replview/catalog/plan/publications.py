"""This module plans the publications of a new slot, table by table.

A table without a usable replica identity goes into a second publication that publishes only inserts
and truncations, because publishing its updates would make the application's own UPDATE and DELETE
fail. Existing publications are not altered.
"""

from collections.abc import Sequence

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.naming import LONGEST_NAME_BYTES
from replview.catalog.plan.columns import check_columns, table_items
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.slot_request import SlotRequest, check_owned, chosen_tables, fully_usable
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import read_publications
from replview.catalog.server import ServerFacts
from replview.catalog.tables import TableFacts, read_tables
from replview.text.formats import some_of
from replview.text.problem import Note

_PUBLISH_SINGLY = "Publish the tables one by one"
#: The cost of adding tables to a publication.
TABLES_COST = (
    "a brief lock on each table, during which reads and writes continue (SHARE UPDATE EXCLUSIVE: "
    "it waits for VACUUM, ANALYZE and ALTER TABLE)"
)


def publication_steps(
    connection: Connection,
    request: SlotRequest,
    server: ServerFacts,
    remade: Sequence[Statement] = (),
) -> tuple[list[Statement], list[Note]]:
    """Return the CREATE PUBLICATION statements, and notes about them."""
    existing = {publication.name for publication in read_publications(connection)}
    existing |= {step.name for step in remade}
    tables = read_tables(connection)
    if request.publications:
        if missing := [name for name in request.publications if name not in existing]:
            cause = f"there is no publication {some_of(missing)} in {server.database}"
            remedy = "Choose others, or let replview create one"
            raise SourceProblem("no_such_publication", cause, remedy, "publications")
        check_columns(request, tables, None)
        notes = ["the publications are used unchanged"]
        if request.exclude:
            notes.append("the source still sends excluded columns; replview does not store them")
        return list(remade), list(map(Note, notes))
    chosen = chosen_tables(request, tables, server.version)
    check_owned(chosen, tables, server.may_create)
    usable = [table for table in chosen if fully_usable(table, tables)]
    unusable = [table for table in chosen if table not in usable]
    check_columns(request, tables, usable)
    if request.all_tables:
        return [_all_tables_step(request, server, unusable, existing)], all_tables_notes(unusable)
    tables_by_name = {request.slot_name: usable, f"{request.slot_name}_inserts": unusable}
    steps = [
        _creation_step(name, publication_tables, request, server, existing)
        for name, publication_tables in tables_by_name.items()
        if publication_tables
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
        notes.append("changes of partitions are published under the name of the partitioned table")
    if request.exclude and server.version < 150000:
        notes.append(
            "before PostgreSQL 15 the source still sends excluded columns; replview does not store "
            "them"
        )
    return list(map(Note, notes))


def _creation_step(
    name: str,
    tables: list[TableFacts],
    request: SlotRequest,
    server: ServerFacts,
    existing: set[str],
) -> Statement:
    _check_new_name(name, existing)
    return Statement(
        sql=creation(name, tables, request, server).as_string(None),
        undo=drop_publication(name),
        needs="CREATE on the database, and ownership of the tables",
        costs=TABLES_COST,
        kind="publication",
        name=name,
    )


def creation(
    name: str, tables: list[TableFacts], request: SlotRequest, server: ServerFacts
) -> sql.Composed:
    """Return CREATE PUBLICATION for these tables.

    A publication with another name than the slot's publishes only inserts and truncations.
    """
    options = [] if name == request.slot_name else [sql.SQL("publish = 'insert, truncate'")]
    if server.version >= 130000 and any(table.partitioned for table in tables):
        options.append(sql.SQL("publish_via_partition_root = true"))
    items = table_items(tables, request, server.version)
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), items)
    if options:
        statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
    return statement


def _all_tables_step(
    request: SlotRequest, server: ServerFacts, unusable: list[TableFacts], existing: set[str]
) -> Statement:
    """Return CREATE PUBLICATION FOR ALL TABLES.

    Raises ``SourceProblem`` if UPDATE and DELETE would fail on a table that ``breaking`` does not
    name.
    """
    if suffering := [str(table) for table in unusable if table.text not in request.breaking]:
        raise SourceProblem(
            "unusable_tables",
            "FOR ALL TABLES would make UPDATE and DELETE fail on tables without a usable replica "
            f"identity: {some_of(suffering)}",
            _PUBLISH_SINGLY,
            "all_tables",
        )
    if not server.superuser:
        cause = "FOR ALL TABLES needs a superuser"
        raise SourceProblem("not_superuser", cause, _PUBLISH_SINGLY, "all_tables")
    if request.exclude:
        cause = "FOR ALL TABLES cannot leave columns out"
        remedy = "Mask the columns instead, or publish the tables one by one"
        raise SourceProblem("all_tables_columns", cause, remedy, "mask")
    _check_new_name(request.slot_name, existing)
    name = sql.Identifier(request.slot_name)
    statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(name)
    if server.version >= 130000:
        statement += sql.SQL(" WITH (publish_via_partition_root = true)")
    now = "nothing now"
    if unusable:
        now = f"UPDATE and DELETE fail at once on {some_of([str(table) for table in unusable])}"
    return Statement(
        sql=statement.as_string(None),
        undo=drop_publication(request.slot_name),
        needs="superuser",
        costs=f"{now}; UPDATE and DELETE will fail on every later table without a primary key",
        kind="publication",
        name=request.slot_name,
    )


def all_tables_notes(unusable: list[TableFacts]) -> list[Note]:
    """Return notes on what FOR ALL TABLES means, the danger first."""
    later = Note(
        "tables that are created later are recorded from their first row on; no column can be left "
        "out at the source, only masked in replview"
    )
    danger = Note(
        "from then on UPDATE and DELETE fail for everybody on the source, on "
        f"{some_of([str(table) for table in unusable])}: PostgreSQL refuses them on a published "
        "table without a usable replica identity"
    )
    return [danger, later] if unusable else [later]


def _check_new_name(name: str, existing: set[str]) -> None:
    if len(name.encode()) > LONGEST_NAME_BYTES:
        cause = f"publication name {name} has more than {LONGEST_NAME_BYTES} bytes"
        raise SourceProblem("bad_publication_name", cause, "Choose a shorter slot name")
    if name in existing:
        cause = f"there is already a publication {name}"
        remedy = "Use that publication, or choose another slot name"
        raise SourceProblem("publication_exists", cause, remedy, "publications")


def drop_publication(name: str) -> str:
    """Return the SQL that drops a publication."""
    return sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(name)).as_string(None)
