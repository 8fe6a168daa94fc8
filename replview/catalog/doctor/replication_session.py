"""Tries a real replication connection: managed services grant by role, so no attribute tells."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from replview.catalog.connections import Connection, connect_replication
from replview.catalog.doctor.findings import Finding, note, ok, problem
from replview.catalog.problems import THROUGH_SQL, explain


@dataclass(frozen=True, slots=True)
class Identified:
    """What IDENTIFY_SYSTEM told."""

    system_identifier: str
    timeline: int


def try_replication(conninfo: str) -> tuple[Identified | None, list[Finding]]:
    """Open a walsender session, ask who the system is, close it."""
    code = "replication_connection"
    try:
        with connect_replication(conninfo) as connection, connection.cursor() as cursor:
            row = cursor.execute("IDENTIFY_SYSTEM").fetchone()
    except psycopg.Error as error:
        trouble = explain(error, conninfo)
        if trouble.code == "pooler" or (trouble.code == "refused" and _is_a_pooler(error)):
            return None, [_pooler()]
        return None, [problem(trouble.code, trouble.cause, trouble.remedy)]
    if row is None or len(row) < 2:
        return None, [_pooler()]
    found = Identified(system_identifier=str(row[0]), timeline=int(row[1]))
    return found, [ok(code, "a replication connection works (IDENTIFY_SYSTEM answered)")]


def check_pooler(connection: Connection, *, replication_works: bool) -> Iterator[Finding]:
    """A pooler tells libpq of another process than the one that answers."""
    row = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    if row is not None and row[0] != connection.info.backend_pid:
        yield (
            note("pooler", "a connection pooler stands between; it passes replication on")
            if replication_works
            else _pooler()
        )


def _is_a_pooler(error: psycopg.Error) -> bool:
    """A walsender always knows IDENTIFY_SYSTEM; an ordinary session calls it a syntax error."""
    return isinstance(error, psycopg.errors.SyntaxError) or "pgbouncer" in str(error).lower()


def _pooler() -> Finding:
    return problem(
        "pooler",
        "a connection pooler stands between replview and the server: replication does not pass it",
        "Give the DSN of the server itself, or " + THROUGH_SQL,
    )
