"""What keeps a baseline from being read, each with its cause and what mends it."""

from collections.abc import Sequence

from psycopg import errors

from replview.catalog.naming import quoted
from replview.catalog.problems import SourceProblem

_ASK_AGAIN = "Ask for the baseline again"


def standby() -> SourceProblem:
    """Only a primary can be asked."""
    return SourceProblem(
        "standby",
        "the source is a standby, whose snapshots cannot be tied to a position of the WAL",
        "Add the primary as a source with a slot of its own, and take the baseline there",
    )


def no_logical(wal_level: str) -> SourceProblem:
    """No slot can be made."""
    return SourceProblem(
        "wal_level",
        f"the server's wal_level is {wal_level}, not logical",
        "ALTER SYSTEM SET wal_level = 'logical', then restart the server",
    )


def other_plugin(plugin: str) -> SourceProblem:
    """Its stream tells other columns and texts than the catalog would."""
    return SourceProblem(
        "other_plugin",
        f"the slot speaks {plugin}, and a baseline is read as pgoutput would send its rows",
        "Add a slot of pgoutput for this source",
    )


def other_cluster() -> SourceProblem:
    """Its positions do not compare with those of the record."""
    return SourceProblem(
        "other_cluster",
        "the source is another cluster, or on another timeline, than the slot's record is of",
        "Once the slot is received from it, a new record begins: ask again then",
    )


def life_ended() -> SourceProblem:
    """The slot began anew while the table was read."""
    return SourceProblem(
        "life_ended",
        "a new record of the slot began while the table was read, and positions do not compare "
        "across it",
        _ASK_AGAIN,
    )


def no_table(schema: str, table: str) -> SourceProblem:
    """Dropped or renamed."""
    return SourceProblem(
        "no_such_table", f"there is no table {schema}.{table} any more", "Name another"
    )


def unpublished(schema: str, table: str, publications: Sequence[str]) -> SourceProblem:
    """None of its later changes would come."""
    names = ", ".join(publications) or "none"
    add = (
        f"ALTER PUBLICATION {quoted(publications[0])} ADD TABLE {quoted(schema, table)}"
        if publications
        else "Receive the slot with a publication"
    )
    return SourceProblem(
        "not_published",
        f"{schema}.{table} is not published to this slot (publications: {names})",
        add,
    )


def locked(schema: str, table: str) -> SourceProblem:
    """DDL holds it."""
    return SourceProblem(
        "locked",
        f"{schema}.{table} is locked by another session (ALTER TABLE, TRUNCATE, VACUUM FULL …)",
        f"{_ASK_AGAIN} when that has ended",
    )


def moved(schema: str, table: str) -> SourceProblem:
    """The snapshot does not see its rows."""
    return SourceProblem(
        "moved",
        f"{schema}.{table} was truncated, rewritten or repartitioned at this very moment",
        _ASK_AGAIN,
    )


def may_not_read(schema: str, table: str, role: str) -> SourceProblem:
    """Decoding needs no right to read, a baseline does."""
    return SourceProblem(
        "may_not_read",
        f"role {role} may receive the changes of {schema}.{table}, but not read it",
        f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(role)}; "
        f"GRANT SELECT ON {quoted(schema, table)} TO {quoted(role)}",
    )


def row_security(schema: str, table: str, role: str) -> SourceProblem:
    """It would see a part of the rows."""
    return SourceProblem(
        "row_security",
        f"{schema}.{table} has row-level security, under which role {role} would see a part of its "
        "rows and not know it",
        f"ALTER ROLE {quoted(role)} BYPASSRLS",
    )


def waited(seconds: float) -> SourceProblem:
    """Making a slot waits for whatever runs."""
    return SourceProblem(
        "waited",
        "transactions that were open on the server (running, or prepared) did not end within "
        f"{_span(seconds)}, and a consistent snapshot waits for them",
        "End them, or wait until they end, and ask again: SELECT pid, xact_start, state FROM "
        "pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start; "
        "SELECT gid, prepared FROM pg_prepared_xacts ORDER BY prepared",
    )


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def too_many() -> SourceProblem:
    """Changes are numbered by 32 bits within a transaction."""
    return SourceProblem(
        "too_many_rows",
        "the table has more than 2,147,483,647 rows, which one baseline cannot hold",
        "Take baselines of its partitions, or narrow the publication by a row filter",
    )


def refused(error: Exception, schema: str, table: str, role: str) -> SourceProblem | None:
    """Errors of reading that mean something of their own here."""
    if isinstance(error, errors.InsufficientPrivilege):
        if "row-level security" in str(error):
            return row_security(schema, table, role)
        return may_not_read(schema, table, role)
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return moved(schema, table)
    return None
