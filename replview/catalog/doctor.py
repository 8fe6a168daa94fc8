"""This module finds what a source lacks to be replicated, with the SQL or setting that repairs it.

It only reads: catalogs over an ordinary connection, and IDENTIFY_SYSTEM over a replication one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from replview.catalog import doctor_checks, doctor_plugins
from replview.catalog.connections import Connection, connect_replication, connected
from replview.catalog.doctor_checks import Finding, note, ok, problem, warning
from replview.catalog.holders import HoldingTransaction, read_open_transactions
from replview.catalog.naming import literal
from replview.catalog.problems import THROUGH_SQL, explain
from replview.catalog.publications import read_publications
from replview.catalog.server import ServerFacts, read_server_facts
from replview.catalog.slots import SlotFacts, read_slots
from replview.catalog.tables import read_tables
from replview.text.formats import bytes_words, some_of

_OLDEST_READABLE = 100000
#: Transactions younger than this are ignored: they end before anyone could act.
_SHORT_SECONDS = 5.0


def examine(conninfo: str, *, store_system_identifier: str | None = None) -> list[Finding]:
    """Return all findings about a source, in the order in which to repair them."""
    try:
        with connected(conninfo, deadline_seconds=60) as connection:
            return list(_examine(connection, conninfo, store_system_identifier))
    except psycopg.Error as error:
        refusal = explain(error, conninfo)
        return [problem(refusal.code, refusal.cause, refusal.remedy, refusal.field)]


def _examine(
    connection: Connection, conninfo: str, store_system_identifier: str | None
) -> Iterator[Finding]:
    info = connection.info
    yield ok("reachable", f"connected to {info.dbname} at {info.host}:{info.port} as {info.user}")
    if info.server_version < _OLDEST_READABLE:
        version = f"{info.server_version // 10000}.{info.server_version // 100 % 100}"
        message = f"PostgreSQL {version} has no logical replication by pgoutput"
        yield problem("unsupported_version", message, "Upgrade to 14 or later")
        return
    facts = read_server_facts(connection)
    for check in doctor_checks.OF_SERVER:
        yield from check(facts)
    identified, findings = try_replication(conninfo)
    yield from findings
    if all(finding.code != "pooler" for finding in findings):
        yield from check_pooler(connection, replication_works=bool(identified))
    yield from _examine_content(connection, facts)
    source = identified.system_identifier if identified else facts.system_identifier
    yield from check_same_cluster(source, store_system_identifier)


def _examine_content(connection: Connection, facts: ServerFacts) -> Iterator[Finding]:
    """Yield findings about tables, publications, transactions and slots.

    Each part is checked separately, so that one refusal hides only that part.
    """
    all_tables = read_tables(connection)
    yield from doctor_checks.check_identities(all_tables)
    yield from doctor_checks.check_partitions(all_tables)
    yield from doctor_checks.check_publications(read_publications(connection), all_tables)
    yield from doctor_checks.check_rights(facts.may_create, all_tables, facts.database)
    try:
        yield from check_open_transactions(read_open_transactions(connection))
    except psycopg.errors.InsufficientPrivilege:
        message = "the role may not see open transactions; creating a slot waits for all of them"
        yield warning("open_transactions", message, f"GRANT pg_monitor TO {facts.role}")
    slots = read_slots(connection)
    yield from doctor_plugins.check_hidden_plugins(connection, facts)
    yield from doctor_plugins.check_plugins(facts, slots)
    yield from check_slots(slots)


@dataclass(frozen=True, slots=True)
class Identified:
    """The result of IDENTIFY_SYSTEM."""

    system_identifier: str
    timeline: int


def try_replication(conninfo: str) -> tuple[Identified | None, list[Finding]]:
    """Return the result of IDENTIFY_SYSTEM on a walsender session, and the findings."""
    code = "replication_connection"
    try:
        with connect_replication(conninfo) as connection, connection.cursor() as cursor:
            row = cursor.execute("IDENTIFY_SYSTEM").fetchone()
    except psycopg.Error as error:
        refusal = explain(error, conninfo)
        if refusal.code == "pooler" or (
            # A walsender always knows IDENTIFY_SYSTEM; an ordinary session calls it a syntax error.
            refusal.code == "refused"
            and (isinstance(error, psycopg.errors.SyntaxError) or "pgbouncer" in str(error).lower())
        ):
            return None, [_pooler_problem()]
        return None, [problem(refusal.code, refusal.cause, refusal.remedy, refusal.field)]
    if row is None or len(row) < 2:
        return None, [_pooler_problem()]
    identity = Identified(system_identifier=str(row[0]), timeline=int(row[1]))
    return identity, [ok(code, "a replication connection works (IDENTIFY_SYSTEM answered)")]


def check_pooler(connection: Connection, *, replication_works: bool) -> Iterator[Finding]:
    """Yield a finding if another process answers than the one that libpq connected to."""
    row = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    if row is not None and row[0] != connection.info.backend_pid:
        yield (
            note(
                "pooler",
                "the address leads to a connection pooler that forwards replication connections",
            )
            if replication_works
            else _pooler_problem()
        )


def _pooler_problem() -> Finding:
    return problem(
        "pooler",
        "a connection pooler is between replview and the server: it refuses replication",
        "Give the address of the server itself, or " + THROUGH_SQL,
        "interface",
    )


def check_open_transactions(waiting_for: list[HoldingTransaction]) -> Iterator[Finding]:
    """Yield a finding about open transactions: slot creation waits for each, in every database."""
    old = [
        transaction
        for transaction in waiting_for
        if transaction.gid is not None
        or transaction.age_seconds is None
        or transaction.age_seconds >= _SHORT_SECONDS
    ]
    if not old:
        yield ok("open_transactions", "no long transaction delays the creation of a slot")
        return
    yield warning(
        "open_transactions",
        f"creating a slot would wait for {len(old)} open transaction{'s' if len(old) > 1 else ''}: "
        f"{some_of([str(transaction) for transaction in old], 5)}",
        "Wait for their end, and if it is safe, end them: "
        + "; ".join(_statement_to_end(transaction) for transaction in old[:5]),
    )


def check_slots(slots: list[SlotFacts]) -> Iterator[Finding]:
    """Yield findings about slots that hold WAL without a reader, and about lost ones."""
    for slot in slots:
        drop = f"SELECT pg_drop_replication_slot({literal(slot.slot_name)})"
        if slot.wal_status == "lost" or slot.invalidation_reason:
            reason = f" ({slot.invalidation_reason})" if slot.invalidation_reason else ""
            yield note("lost_slot", f"slot {slot.slot_name} is lost{reason}", drop)
        elif not slot.active and slot.retained_wal_bytes:
            retained = bytes_words(slot.retained_wal_bytes)
            message = f"slot {slot.slot_name} has no reader and retains {retained} of WAL"
            remedy = f"Start its reader, or drop it if nobody needs it: {drop}"
            yield warning("inactive_slot", message, remedy)


def check_same_cluster(source: str | None, store: str | None) -> Iterator[Finding]:
    """Yield a finding if the store is in the source's cluster.

    The slot must then read the WAL that storing its own changes writes.
    """
    if source is not None and source == store:
        yield warning(
            "same_cluster",
            "replview's store is in the same cluster as this source: the slot must also read the "
            "WAL that replview writes, which halves the rate, and is never idle",
            "Put the store into a cluster of its own: REPLVIEW_STORE_URL",
        )


def _statement_to_end(transaction: HoldingTransaction) -> str:
    if transaction.gid is not None:
        gid = literal(transaction.gid)
        return f"COMMIT PREPARED {gid}, or ROLLBACK PREPARED {gid} (in {transaction.database})"
    condition = f"pid = {transaction.pid} AND backend_xid = '{transaction.xid}'::xid"
    return f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {condition}"  # noqa: S608 (to be copied)
