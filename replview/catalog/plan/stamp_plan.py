"""This module plans to install or remove the stamp: statements with rights, locks and undo."""

from dataclasses import dataclass, replace

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.plan.actor_stamp import (
    BODY,
    MAY_TRIGGER,
    OURS,
    REVOKED,
    SCHEMA,
    TRIGGER,
    StampFacts,
    read_stamp,
)
from replview.catalog.plan.plan import Statement
from replview.catalog.problems import SourceProblem
from replview.catalog.tables import TableFacts, leaves_of, read_tables
from replview.text.formats import some_of
from replview.text.problem import Note

_LOCK_ON_CREATE = (
    "a brief SHARE ROW EXCLUSIVE lock: it waits for transactions that have written to the "
    "table, and while it waits (2 s at most) new writers wait too; readers do not"
)
_LOCK_ON_DROP = (
    "a brief ACCESS EXCLUSIVE lock: it waits for every transaction that has used the "
    "table, and while it waits (2 s at most) new readers and writers wait too"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StampPlan:
    """The statements in order: preparation, then one for each table, then the rest."""

    before: tuple[Statement, ...] = ()
    tables: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Return all statements in order."""
        return (*self.before, *self.tables, *self.after)


def plan_install(
    connection: Connection, tables: list[str], *, all_tables: bool, revoke: bool
) -> StampPlan:
    """Return the statements that install what is missing. Raises ``SourceProblem`` to refuse."""
    stamp = read_stamp(connection)
    _check_source(stamp)
    if connection.info.server_version < 140000:
        major = connection.info.server_version // 10000
        cause = f"PostgreSQL {major} sends no logical messages, which carry the actor's name"
        raise SourceProblem("no_messages", cause, "Upgrade the source to 14 or later")
    if stamp.owner is None and not stamp.may_create:
        cause = f"role {stamp.role} may not create a schema in this database"
        remedy = "GRANT CREATE ON DATABASE … TO the role, or give the address with another role"
        raise SourceProblem("may_not_create", cause, remedy)
    chosen = _chosen_tables(read_tables(connection), tables, all_tables)
    _check_triggers(connection, chosen, stamp)
    stamped_keys = {(table.schema, table.name) for table in stamp.tables}
    missing = [table for table in chosen if table.key not in stamped_keys]
    return StampPlan(
        before=(*_groundwork(stamp), *(_revoke_steps(stamp) if revoke else ())),
        tables=tuple(_trigger_step(table) for table in missing),
        notes=tuple(_install_notes(stamp, chosen, len(chosen) - len(missing), revoke)),
    )


def plan_remove(connection: Connection) -> StampPlan:
    """Return the statements that remove the stamp. Raises ``SourceProblem`` if it is not ours."""
    stamp = read_stamp(connection)
    _check_source(stamp)
    if stamp.owner is None:
        return StampPlan()
    costs = "every role may write logical messages again, as is PostgreSQL's default"
    granting = [
        replace(step, sql=step.undo, undo=step.sql, costs=costs) for step in _emit_steps(stamp)
    ]
    # Without CASCADE, objects that somebody else put into the schema are not dropped.
    final_steps = [
        *(granting if stamp.revoked else ()),
        _step(f"DROP FUNCTION {SCHEMA}.stamp()", "", "function", "no lock on any table"),
        _step(f"DROP SCHEMA {SCHEMA}", "", "schema", "no lock on any table"),
    ]
    triggers = [_drop_step(table.schema, table.name) for table in stamp.tables]
    return StampPlan(tables=tuple(triggers), after=tuple(final_steps))


def _check_source(stamp: StampFacts) -> None:
    if stamp.in_recovery:
        raise SourceProblem(
            "standby", "this server is a standby", "Give the address of the primary"
        )
    if stamp.owner is not None and not stamp.ours:
        cause = f"there is a schema {SCHEMA} that replview did not make"
        raise SourceProblem("not_ours", cause, "Rename it, or drop it if it is not needed")
    if stamp.owner is not None and not stamp.owned and not stamp.superuser:
        cause = f"the stamp belongs to role {stamp.owner}; {stamp.role} lacks its privileges"
        remedy = f"Give the address with role {stamp.owner} or a superuser"
        raise SourceProblem("not_owner", cause, remedy)
    if not stamp.may_emit:
        cause = f"role {stamp.role} may not execute pg_logical_emit_message()"
        remedy = "GRANT EXECUTE on it to the role, or give the address with a superuser"
        raise SourceProblem("may_not_emit", cause, remedy)


def _check_triggers(connection: Connection, chosen: list[TableFacts], stamp: StampFacts) -> None:
    allowed_oids = {
        row["oid"] for row in MAY_TRIGGER.rows(connection, [table.oid for table in chosen])
    }
    if refused := [str(table) for table in chosen if table.oid not in allowed_oids]:
        cause = f"role {stamp.role} may not create triggers on {some_of(refused)}"
        remedy = "GRANT TRIGGER ON the table to the role, or choose other tables"
        raise SourceProblem("may_not_trigger", cause, remedy, "stamped_tables")


def _chosen_tables(
    existing_tables: list[TableFacts], names: list[str], all_tables: bool
) -> list[TableFacts]:
    """Return the named tables, or all, with the partitions of partitioned ones at every level."""
    if all_tables:
        permanent_tables = [table for table in existing_tables if table.schema != SCHEMA]
        if not permanent_tables:
            raise SourceProblem("no_tables", "there is no table to stamp", "Create one first")
        return permanent_tables
    by_name = {str(table): table for table in existing_tables}
    chosen: dict[int, TableFacts] = {}
    for text in names:
        table = by_name.get(text if "." in text else f"public.{text}")
        if table is None:
            cause = f"there is no permanent table {text}"
            remedy = "Correct the name: write it as in the catalog, schema.table"
            raise SourceProblem("no_such_table", cause, remedy, "stamped_tables")
        # A statement fires the triggers of the table that it names, not of its partitions.
        for relation in (table, *leaves_of(table, existing_tables)):
            chosen[relation.oid] = relation
    return sorted(chosen.values(), key=str)


def _groundwork(stamp: StampFacts) -> list[Statement]:
    """Return the statements for schema and function, or only those that are missing or outdated."""
    create = (
        f"CREATE OR REPLACE FUNCTION {SCHEMA}.stamp() RETURNS trigger LANGUAGE plpgsql "
        f"SECURITY DEFINER AS $stamp${BODY}$stamp$"
    )
    if stamp.owner is not None:
        costs = "nothing: the next statement runs the new function"
        return [] if stamp.current else [_step(create, "", "function", costs)]
    quick = "no lock on any of your tables"
    # Undoing the first statement drops the rest too.
    return [
        _step(f"CREATE SCHEMA {SCHEMA}", f"DROP SCHEMA {SCHEMA} CASCADE", "schema", quick,
              "CREATE on the database"),
        _step(f"COMMENT ON SCHEMA {SCHEMA} IS '{OURS}'", "", "comment", quick),
        _step(create, "", "function", quick),
        _step(f"REVOKE ALL ON FUNCTION {SCHEMA}.stamp() FROM PUBLIC", "", "function", quick),
    ]  # fmt: skip


def _revoke_steps(stamp: StampFacts) -> list[Statement]:
    """Return the statements that revoke from PUBLIC the right to emit messages.

    Only the trigger, and roles with an explicit grant, may then emit messages.
    """
    if not stamp.public_may_emit:
        return []
    if not stamp.superuser:
        cause = "revoking EXECUTE on pg_logical_emit_message() from PUBLIC needs a superuser"
        remedy = "Leave it out, or give the address with a superuser"
        raise SourceProblem("not_superuser", cause, remedy, "revoke_emit")
    comment = f'COMMENT ON SCHEMA "{SCHEMA}" IS \'{OURS}'
    costs = "nothing: the comment lets 'actor remove' grant the privilege again"
    comment_step = _step(f"{comment}{REVOKED}'", f"{comment}'", "comment", costs)
    return [comment_step, *_emit_steps(stamp)]


def _emit_steps(stamp: StampFacts) -> list[Statement]:
    return [
        _step(
            f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC",
            f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC",
            "right",
            "roles that claim their actor by a message then need this privilege: grant it to those "
            "you trust",
            "superuser",
        )
        for function in stamp.emit_functions
    ]


def _trigger_step(table: TableFacts) -> Statement:
    target = sql.Identifier(table.schema, table.name)
    name = sql.Identifier(TRIGGER)
    create = sql.SQL(
        "CREATE TRIGGER {} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {} FOR EACH STATEMENT "
        "EXECUTE FUNCTION {}.stamp()"
    )
    return Statement(
        sql=create.format(name, target, sql.Identifier(SCHEMA)).as_string(None),
        undo=sql.SQL("DROP TRIGGER {} ON {}").format(name, target).as_string(None),
        needs="TRIGGER on the table",
        costs=_LOCK_ON_CREATE,
        kind="trigger",
        name=str(table),
    )


def _drop_step(schema: str, table: str) -> Statement:
    target = sql.Identifier(schema, table)
    return Statement(
        sql=sql.SQL("DROP TRIGGER {} ON {}")
        .format(sql.Identifier(TRIGGER), target)
        .as_string(None),
        needs="ownership of the table",
        costs=_LOCK_ON_DROP,
        kind="trigger",
        name=f"{schema}.{table}",
    )


def _step(
    statement: str, undo: str, kind: str, costs: str,
    needs: str = "ownership of the schema",
) -> Statement:  # fmt: skip
    """Return a statement that contains no name from the source."""
    return Statement(sql=statement, undo=undo, needs=needs, costs=costs, kind=kind, name=SCHEMA)


def _install_notes(
    stamp: StampFacts, chosen: list[TableFacts], stamped_count: int, revoke: bool
) -> list[Note]:
    notes = [Note("later tables and partitions are not stamped: run this again for them")]
    if stamped_count:
        notes.append(Note(f"{stamped_count} of {len(chosen)} tables are already stamped"))
    if stamp.public_may_emit and not revoke:
        text = (
            "every role may write logical messages, even a false stamp; EXECUTE can be restricted "
            "to the trigger and to roles that are granted it"
        )
        notes.append(Note(text, "revoke_emit"))
    return notes
