"""Everything a source lacks to be replicated, each with the exact SQL or setting that mends it.

It only reads: catalogs over an ordinary connection, and IDENTIFY_SYSTEM over a replication one.
"""

from collections.abc import Iterator

import psycopg

from replview.catalog.connections import Connection, connected
from replview.catalog.doctor import plugins, replication_session, server, tables, waiting
from replview.catalog.doctor.findings import Finding, ok, problem, warning
from replview.catalog.problems import explain
from replview.catalog.publications import read_publications
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.slots import read_slots
from replview.catalog.state.open_transactions import read_open_transactions
from replview.catalog.tables import read_tables

_OLDEST_READABLE = 100000


def examine(conninfo: str, *, store_system_identifier: str | None = None) -> list[Finding]:
    """All findings about a source, in the order a reader should mend them."""
    try:
        with connected(conninfo, deadline_seconds=60) as connection:
            return list(_examine(connection, conninfo, store_system_identifier))
    except psycopg.Error as error:
        trouble = explain(error, conninfo)
        return [problem(trouble.code, trouble.cause, trouble.remedy)]


def _examine(
    connection: Connection, conninfo: str, store_system_identifier: str | None
) -> Iterator[Finding]:
    info = connection.info
    yield ok("reachable", f"connected to {info.dbname} at {info.host}:{info.port} as {info.user}")
    if info.server_version < _OLDEST_READABLE:
        version = f"{info.server_version // 10000}.{info.server_version // 100 % 100}"
        yield problem(
            "unsupported_version",
            f"PostgreSQL {version} has no logical replication by pgoutput",
            "Upgrade to 14 or later",
        )
        return
    facts = read_server_facts(connection)
    yield from _about_server(facts)
    identified, findings = replication_session.try_replication(conninfo)
    yield from findings
    if all(one.code != "pooler" for one in findings):
        yield from replication_session.check_pooler(connection, replication_works=bool(identified))
    yield from _about_content(connection, facts)
    source = identified.system_identifier if identified else facts.system_identifier
    yield from waiting.check_same_cluster(source, store_system_identifier)


def _about_server(facts: ServerFacts) -> Iterator[Finding]:
    yield from server.check_version(facts)
    yield from server.check_wal_level(facts)
    yield from server.check_room(facts)
    yield from server.check_disk(facts)
    yield from server.check_kind(facts)


def _about_content(connection: Connection, facts: ServerFacts) -> Iterator[Finding]:
    """Tables, publications, transactions, slots: each part apart, so that one refusal hides one."""
    all_tables = read_tables(connection)
    yield from tables.check_identities(all_tables)
    yield from tables.check_partitions(all_tables)
    yield from tables.check_publications(read_publications(connection), all_tables)
    yield from tables.check_rights(facts.may_create, all_tables, facts.database)
    try:
        yield from waiting.check_open_transactions(read_open_transactions(connection))
    except psycopg.errors.InsufficientPrivilege:
        yield warning(
            "open_transactions",
            "the role may not see open transactions; creating a slot waits for all of them",
            f"GRANT pg_monitor TO {facts.role}",
        )
    slots = read_slots(connection)
    yield from plugins.check_plugins(facts, slots)
    yield from waiting.check_slots(slots)
