"""The publications a new slot needs, made table by table.

A table without a usable replica identity goes into a second publication that publishes only its
inserts and truncations: publishing its updates would make the application's own UPDATE and DELETE
fail.
"""

from collections.abc import Sequence

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.doctor.findings import some_of
from replview.catalog.naming import LONGEST_NAME_BYTES
from replview.catalog.plan import slot_request as wishes
from replview.catalog.plan.column_rules import check_columns, table_items
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.slot_request import Wish, refuse
from replview.catalog.publications import read_publications
from replview.catalog.server import ServerFacts
from replview.catalog.tables import TableFacts, read_tables


def publication_steps(
    connection: Connection, wish: Wish, server: ServerFacts, remade: Sequence[Statement] = ()
) -> tuple[list[Statement], list[str]]:
    """The CREATE PUBLICATION statements, and what the user should know of them."""
    known = {publication.name for publication in read_publications(connection)}
    known |= {step.name for step in remade}
    tables = read_tables(connection)
    if wish.publications:
        if missing := [name for name in wish.publications if name not in known]:
            raise refuse(
                "no_such_publication",
                f"there is no publication {some_of(missing)} in {server.database}",
                "Correct --publication, or leave it out to have one made",
            )
        check_columns(wish, tables, None)
        notes = ["the publications are used as they are"]
        if wish.exclude:
            notes.append("excluded columns are still sent by the source; replview keeps none")
        return list(remade), notes
    chosen = wishes.chosen_tables(wish, tables, server.version)
    wishes.check_owned(chosen, tables, server.may_create)
    usable = [table for table in chosen if wishes.fully_usable(table, tables)]
    unusable = [table for table in chosen if table not in usable]
    check_columns(wish, tables, usable)
    if wish.all_tables:
        return [_all_tables_step(wish, server, unusable, known)], all_tables_notes(unusable)
    steps = []
    if usable:
        steps.append(_step(wish.slot_name, usable, wish, server, known, inserts_only=False))
    if unusable:
        name = f"{wish.slot_name}_inserts"
        steps.append(_step(name, unusable, wish, server, known, inserts_only=True))
    return steps, _notes(unusable, chosen, wish, server)


def _notes(
    unusable: list[TableFacts], chosen: list[TableFacts], wish: Wish, server: ServerFacts
) -> list[str]:
    notes = ["tables created later are not in the publication: ALTER PUBLICATION … ADD TABLE"]
    if unusable:
        notes.append(
            "only inserts and truncations are published of tables without a usable replica "
            f"identity: {some_of([str(table) for table in unusable])}"
        )
    if any(table.partitioned for table in chosen):
        notes.append("partitioned tables are published by their root, under its name")
    if wish.exclude and server.version < 150000:
        notes.append("before 15 excluded columns are still sent by the source; replview keeps none")
    return notes


def _step(
    name: str,
    tables: list[TableFacts],
    wish: Wish,
    server: ServerFacts,
    known: set[str],
    *,
    inserts_only: bool,
) -> Statement:
    """CREATE PUBLICATION for these tables."""
    _check_new_name(name, known)
    options = [sql.SQL("publish = 'insert, truncate'")] if inserts_only else []
    if server.version >= 130000 and any(table.partitioned for table in tables):
        options.append(sql.SQL("publish_via_partition_root = true"))
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(
        sql.Identifier(name), table_items(tables, wish, server.version)
    )
    if options:
        statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
    return Statement(
        sql=statement.as_string(None),
        undo=_drop_publication(name),
        needs="CREATE on the database, and ownership of the tables",
        costs="a moment's lock on each table that lets reads and writes pass "
        "(SHARE UPDATE EXCLUSIVE: it waits for VACUUM, ANALYZE and ALTER TABLE)",
        kind="publication",
        name=name,
    )


def _all_tables_step(
    wish: Wish, server: ServerFacts, unusable: list[TableFacts], known: set[str]
) -> Statement:
    """FOR ALL TABLES, where no table suffers from it but those that were agreed to."""
    if suffering := [str(table) for table in unusable if table.text not in wish.breaking]:
        raise refuse(
            "unusable_tables",
            "FOR ALL TABLES would make UPDATE and DELETE fail on tables without a usable replica "
            f"identity: {some_of(suffering)}",
            "Leave --all-tables out: replview then publishes table by table",
        )
    if not server.superuser:
        raise refuse(
            "not_superuser",
            "FOR ALL TABLES needs a superuser",
            "Leave --all-tables out: replview then publishes table by table",
        )
    if wish.exclude:
        raise refuse(
            "all_tables_columns",
            "FOR ALL TABLES cannot leave columns out",
            "Leave --all-tables out, or mask the columns with --mask-column",
        )
    _check_new_name(wish.slot_name, known)
    name = sql.Identifier(wish.slot_name)
    statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(name)
    if server.version >= 130000:
        statement += sql.SQL(" WITH (publish_via_partition_root = true)")
    return Statement(
        sql=statement.as_string(None),
        undo=_drop_publication(wish.slot_name),
        needs="superuser",
        costs=_all_tables_costs(unusable),
        kind="publication",
        name=wish.slot_name,
    )


def all_tables_notes(unusable: list[TableFacts]) -> list[str]:
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
    return notes


def _all_tables_costs(unusable: list[TableFacts]) -> str:
    now = "nothing now"
    if unusable:
        now = f"UPDATE and DELETE fail at once on {some_of([str(table) for table in unusable])}"
    return f"{now}; every later table without a primary key refuses UPDATE and DELETE"


def _check_new_name(name: str, known: set[str]) -> None:
    if len(name.encode()) > LONGEST_NAME_BYTES:
        raise refuse(
            "bad_publication_name",
            f"publication {name} would have more than {LONGEST_NAME_BYTES} bytes",
            "Choose a shorter slot name",
        )
    if name in known:
        raise refuse(
            "publication_exists",
            f"there is already a publication {name}",
            f"Use it with --publication {name}, or choose another slot name",
        )


def _drop_publication(name: str) -> str:
    return sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(name)).as_string(None)
