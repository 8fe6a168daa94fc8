"""What installing or removing the stamp runs on a source: every statement, rights, locks, undo."""

from dataclasses import dataclass

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.doctor.findings import some_of
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
from replview.catalog.plan.slot_request import refuse
from replview.catalog.tables import TableFacts, leaves_of, read_tables

_EVENTS = "INSERT OR UPDATE OR DELETE OR TRUNCATE"
_LOCK_ON_CREATE = (
    "a SHARE ROW EXCLUSIVE lock for a moment: it waits for transactions that have written to the "
    "table, and while it waits (2 s at most) new writers wait too; readers do not"
)
_LOCK_ON_DROP = (
    "an ACCESS EXCLUSIVE lock for a moment: it waits for every transaction that has used the "
    "table, and while it waits (2 s at most) new readers and writers wait too"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StampPlan:
    """First the groundwork, then a table at a time, then what comes last."""

    before: tuple[Statement, ...] = ()
    tables: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All, in their order."""
        return (*self.before, *self.tables, *self.after)


def plan_install(
    connection: Connection, tables: list[str], *, all_tables: bool, revoke: bool
) -> StampPlan:
    """What is missing of the stamp. Raises ``SourceProblem`` to refuse."""
    stamp = read_stamp(connection)
    _check_source(stamp)
    if stamp.owner is None and not stamp.may_create:
        raise refuse(
            "may_not_create",
            f"role {stamp.role} may not create a schema in this database",
            "GRANT CREATE ON DATABASE … TO the role, or give a DSN of another one",
        )
    chosen = _chosen(read_tables(connection), tables, all_tables)
    _check_triggers(connection, chosen, stamp)
    have = {(table.schema, table.name) for table in stamp.tables}
    missing = [table for table in chosen if (table.schema, table.name) not in have]
    return StampPlan(
        before=(*_groundwork(stamp), *(_revoke_steps(stamp) if revoke else ())),
        tables=tuple(_trigger_step(table) for table in missing),
        notes=tuple(_install_notes(stamp, chosen, len(chosen) - len(missing), revoke)),
    )


def plan_remove(connection: Connection) -> StampPlan:
    """Everything of the stamp that is there. Raises ``SourceProblem`` where it is not ours."""
    stamp = read_stamp(connection)
    _check_source(stamp)
    if stamp.owner is None:
        return StampPlan()
    after = []
    if stamp.revoked:
        after += [_swapped(step) for step in _emit_steps(stamp)]
    # Without CASCADE: what somebody else put there is not ours to drop.
    after += [
        _step(f"DROP FUNCTION {SCHEMA}.stamp()", "", "function", "no lock on any table"),
        _step(f"DROP SCHEMA {SCHEMA}", "", "schema", "no lock on any table"),
    ]
    triggers = [_drop_step(table.schema, table.name) for table in stamp.tables]
    return StampPlan(tables=tuple(triggers), after=tuple(after))


def _check_source(stamp: StampFacts) -> None:
    if stamp.in_recovery:
        raise refuse("standby", "this server is a standby", "Give the DSN of the primary")
    if stamp.owner is not None and not stamp.ours:
        raise refuse(
            "not_ours",
            f"there is a schema {SCHEMA} that replview did not make",
            "Rename it, or drop it if it is of no use",
        )
    if stamp.owner is not None and not stamp.owned and not stamp.superuser:
        raise refuse(
            "not_owner",
            f"the stamp belongs to role {stamp.owner}, and {stamp.role} has not its rights",
            f"Give a DSN of {stamp.owner}, or of a superuser",
        )
    if not stamp.may_emit:
        raise refuse(
            "may_not_emit",
            f"role {stamp.role} may not execute pg_logical_emit_message()",
            "GRANT EXECUTE on it to the role, or give the DSN of a superuser",
        )


def _check_triggers(connection: Connection, chosen: list[TableFacts], stamp: StampFacts) -> None:
    may = {row["oid"] for row in MAY_TRIGGER.rows(connection, [table.oid for table in chosen])}
    if refused := [str(table) for table in chosen if table.oid not in may]:
        raise refuse(
            "may_not_trigger",
            f"role {stamp.role} may not put triggers on {some_of(refused)}",
            "GRANT TRIGGER ON the table to the role, or choose other tables with --table",
        )


def _chosen(known: list[TableFacts], names: list[str], all_tables: bool) -> list[TableFacts]:
    """The tables named, or all; of partitioned ones the partitions too, at every level."""
    if all_tables:
        found = [table for table in known if table.schema != SCHEMA]
        if not found:
            raise refuse("no_tables", "there is no table to stamp", "Create one first")
        return found
    by_name = {str(table): table for table in known}
    chosen: dict[int, TableFacts] = {}
    for text in names:
        table = by_name.get(text if "." in text else f"public.{text}")
        if table is None:
            raise refuse(
                "no_such_table",
                f"there is no permanent table {text}",
                "Correct --table; names are written as in the catalog: schema.table",
            )
        # A statement fires the triggers of the table it names, not of the partitions it reaches.
        for each in (table, *leaves_of(table, known)):
            chosen[each.oid] = each
    return sorted(chosen.values(), key=str)


def _groundwork(stamp: StampFacts) -> list[Statement]:
    """Schema and function; or the function alone where that is an older version's."""
    create = (
        f"CREATE OR REPLACE FUNCTION {SCHEMA}.stamp() RETURNS trigger LANGUAGE plpgsql "
        f"SECURITY DEFINER AS $stamp${BODY}$stamp$"
    )
    if stamp.owner is not None:
        if stamp.current:
            return []
        return [_step(create, "", "function", "nothing: the next statement runs the new one")]
    quick = "no lock on any table of yours"
    # The rest goes with the schema.
    with_it = ""
    return [
        _step(f"CREATE SCHEMA {SCHEMA}", f"DROP SCHEMA {SCHEMA} CASCADE", "schema", quick,
              "CREATE on the database"),
        _step(f"COMMENT ON SCHEMA {SCHEMA} IS '{OURS}'", with_it, "comment", quick),
        _step(create, with_it, "function", quick),
        _step(f"REVOKE ALL ON FUNCTION {SCHEMA}.stamp() FROM PUBLIC", with_it, "function", quick),
    ]  # fmt: skip


def _revoke_steps(stamp: StampFacts) -> list[Statement]:
    """Only the trigger, and who is granted it, may write messages."""
    if not stamp.public_may_emit:
        return []
    if not stamp.superuser:
        raise refuse(
            "not_superuser",
            "taking EXECUTE on pg_logical_emit_message() from PUBLIC needs a superuser",
            "Leave --revoke-emit out, or give the DSN of a superuser",
        )
    comment = sql.SQL("COMMENT ON SCHEMA {} IS {}")
    named = sql.Identifier(SCHEMA)
    return [
        Statement(
            sql=comment.format(named, sql.Literal(OURS + REVOKED)).as_string(None),
            undo=comment.format(named, sql.Literal(OURS)).as_string(None),
            needs="ownership of the schema",
            costs="nothing; so that 'actor remove' gives the right back",
            kind="comment",
            name=SCHEMA,
        ),
        *_emit_steps(stamp),
    ]


def _emit_steps(stamp: StampFacts) -> list[Statement]:
    return [
        _step(
            f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC",
            f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC",
            "right",
            "roles that claim their actor by message need it granted by name: to those you trust",
            "superuser",
        )
        for function in stamp.emit_functions
    ]


def _trigger_step(table: TableFacts) -> Statement:
    where = sql.Identifier(table.schema, table.name)
    name = sql.Identifier(TRIGGER)
    create = sql.SQL(
        "CREATE TRIGGER {} BEFORE {} ON {} FOR EACH STATEMENT EXECUTE FUNCTION {}.stamp()"
    )
    return Statement(
        sql=create.format(name, sql.SQL(_EVENTS), where, sql.Identifier(SCHEMA)).as_string(None),
        undo=sql.SQL("DROP TRIGGER {} ON {}").format(name, where).as_string(None),
        needs="TRIGGER on the table",
        costs=_LOCK_ON_CREATE,
        kind="trigger",
        name=str(table),
    )


def _drop_step(schema: str, table: str) -> Statement:
    where = sql.Identifier(schema, table)
    return Statement(
        sql=sql.SQL("DROP TRIGGER {} ON {}").format(sql.Identifier(TRIGGER), where).as_string(None),
        needs="ownership of the table",
        costs=_LOCK_ON_DROP,
        kind="trigger",
        name=f"{schema}.{table}",
    )


def _step(
    statement: str, undo: str, kind: str, costs: str,
    needs: str = "ownership of the schema",
) -> Statement:  # fmt: skip
    """A step whose words are all ours: no name of the source is in them."""
    return Statement(
        sql=statement,
        undo=undo,
        needs=needs,
        costs=costs,
        kind=kind,
        name=SCHEMA,
    )


def _swapped(step: Statement) -> Statement:
    return Statement(
        sql=step.undo,
        undo=step.sql,
        needs=step.needs,
        costs="every role may write messages again, as PostgreSQL has it from the start",
        kind=step.kind,
        name=step.name,
    )


def _install_notes(
    stamp: StampFacts, chosen: list[TableFacts], had: int, revoke: bool
) -> list[str]:
    notes = ["tables made or attached as partitions later are not stamped: run this again"]
    if had:
        notes.append(f"{had} of {len(chosen)} tables are stamped already")
    if stamp.public_may_emit and not revoke:
        notes.append(
            "every role may write messages, a false stamp too: with --revoke-emit only the trigger "
            "may, and roles that are granted it"
        )
    return notes
