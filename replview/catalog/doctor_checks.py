"""This module holds doctor's checks, each with the SQL or setting that repairs what it finds.

They concern the server's version, settings, free slots and rights, tables and publications.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from replview.catalog.connections import Connection, Query
from replview.catalog.naming import quoted
from replview.catalog.publications import Publication
from replview.catalog.server import ServerFacts, unreported_facts
from replview.catalog.tables import TableFacts
from replview.text.formats import bytes_words, some_of

MAY_MONITOR = Query(
    name="may_monitor",
    about="Whether the role is in pg_monitor (or a superuser); anyone may read it.",
    sql="SELECT current_user::text AS role, pg_has_role('pg_monitor', 'USAGE') AS may_monitor",
)


class Grade(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    #: The finding is good to know; there is nothing to do.
    NOTE = "note"
    #: Replication works, and something may hurt.
    WARNING = "warning"
    #: Replication does not work until this is repaired.
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    grade: Grade
    #: ``wal_level``, ``replication_connection``, ``unusable_tables`` …
    code: str
    message: str
    #: The exact SQL or setting, or what to do; empty: nothing.
    remedy: str = ""
    #: The form field to correct, as in ``Problem.field``.
    field: str = ""

    def as_json(self) -> dict[str, object]:
        """Return ``{"grade", "code", "message", "remedy"}``."""
        return {"grade": self.grade, "code": self.code, "message": self.message,
                "remedy": self.remedy}  # fmt: skip


def ok(code: str, message: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(Grade.OK, code, message)


def note(code: str, message: str, remedy: str = "", field: str = "") -> Finding:
    """Return a finding that is good to know."""
    return Finding(Grade.NOTE, code, message, remedy, field)


def warning(code: str, message: str, remedy: str) -> Finding:
    """Return a finding that may hurt although replication works."""
    return Finding(Grade.WARNING, code, message, remedy)


def problem(code: str, message: str, remedy: str, field: str = "") -> Finding:
    """Return a finding that keeps replication from working."""
    return Finding(Grade.PROBLEM, code, message, remedy, field)


def blocks(findings: list[Finding]) -> bool:
    """Return whether any finding keeps replication from working."""
    return any(finding.grade is Grade.PROBLEM for finding in findings)


def check_version(server: ServerFacts) -> Iterator[Finding]:
    """Yield a finding about the version: logical replication needs 10, we test from 12 on."""
    if server.major < 10:
        message = f"PostgreSQL {server.version_text} has no logical replication by pgoutput"
        yield problem("unsupported_version", message, "Upgrade to 14 or later")
    elif server.major < 12:
        message = f"replview is not tested with PostgreSQL {server.version_text}: it is too old"
        remedy = "Upgrade to 14 or later: streamed and two-phase transactions need it"
        yield warning("old_version", message, remedy)
    elif missing := unreported_facts(server.version):
        yield note("version", missing.removesuffix("."), "Upgrade to 15 or later to see these")
    else:
        yield ok("version", f"PostgreSQL {server.version_text}")


def check_wal_level(server: ServerFacts) -> Iterator[Finding]:
    """Yield a finding about the effective wal_level, which 19 raises to logical by itself."""
    if server.wal_level == "logical":
        yield ok("wal_level", "wal_level is logical")
    elif server.major >= 19 and server.wal_level == "replica":
        yield ok("wal_level", "wal_level is replica; the first logical slot raises it")
    else:
        remedy = "ALTER SYSTEM SET wal_level = 'logical'; then restart the server"
        yield problem("wal_level", f"wal_level is {server.wal_level}; it must be logical", remedy)


def check_room(server: ServerFacts) -> Iterator[Finding]:
    """Yield findings about free slots and walsenders."""
    slots_free = server.max_replication_slots - server.slots_used
    if slots_free > 0:
        yield ok("slots", f"{slots_free} of {server.max_replication_slots} slots are free")
    else:
        yield problem(
            "no_free_slot",
            f"all {server.max_replication_slots} replication slots are in use",
            f"ALTER SYSTEM SET max_replication_slots = {server.slots_used + 4}; then restart the "
            "server, or drop a slot nobody needs: SELECT pg_drop_replication_slot('…')",
        )
    senders_free = server.max_wal_senders - server.walsenders_used
    if senders_free > 0:
        yield ok("walsenders", f"{senders_free} of {server.max_wal_senders} walsenders are free")
    else:
        yield problem(
            "no_free_walsender",
            f"all {server.max_wal_senders} walsenders are in use",
            f"ALTER SYSTEM SET max_wal_senders = {server.walsenders_used + 4}; then restart the "
            "server",
        )


def check_disk(server: ServerFacts) -> Iterator[Finding]:
    """Yield a finding about max_slot_wal_keep_size, which alone bounds the WAL of a slot."""
    limit = server.max_slot_wal_keep_bytes
    if limit is None:
        yield warning(
            "no_wal_limit",
            "this version cannot limit the WAL that a slot retains: it can fill the disk",
            "Watch the disk; upgrade to 13 or later and set max_slot_wal_keep_size",
        )
    elif limit < 0:
        yield warning(
            "no_wal_limit",
            "max_slot_wal_keep_size is -1: a slot whose reader stops retains WAL until the disk is "
            "full",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf() "
            "(a slot behind by more is then lost instead)",
        )
    else:
        yield ok("wal_limit", f"slots retain at most {bytes_words(limit)} of WAL")


def check_kind(server: ServerFacts) -> Iterator[Finding]:
    """Yield findings about encoding, standby, prepared transactions and wal_sender_timeout."""
    if server.encoding == "SQL_ASCII":
        yield warning(
            "sql_ascii",
            f"database {server.database} is SQL_ASCII: its text has no known encoding, and bytes "
            "that are not UTF-8 are kept in a marked form",
            "Nothing to do for replication; for clean text, dump and restore into a UTF8 database",
        )
    if server.in_recovery:
        yield _standby_finding(server)
    if server.max_prepared_transactions == 0:
        message = "max_prepared_transactions is 0: there are no prepared transactions to show"
        yield note("no_two_phase", message)
    if server.wal_sender_timeout_ms == 0:
        message = "wal_sender_timeout is 0; replview's own sessions set it to 10 s"
        yield note("wal_sender_timeout", message)


def _standby_finding(server: ServerFacts) -> Finding:
    if server.major < 16:
        message = "this server is a standby; logical slots on one need PostgreSQL 16"
        return problem("standby", message, "Give the address of the primary")
    return warning(
        "standby",
        "this server is a standby: publications are made on its primary, and creating a slot "
        "waits until the primary logs a snapshot",
        "On the primary: CREATE PUBLICATION …; then SELECT pg_log_standby_snapshot()",
    )


#: Checks of the server, in the order in which to repair what they find.
OF_SERVER = (check_version, check_wal_level, check_room, check_disk, check_kind)


def check_monitoring(connection: Connection) -> Iterator[Finding]:
    """Yield a finding about pg_monitor, with the statement that grants it."""
    row = MAY_MONITOR.row(connection)
    if row["may_monitor"]:
        yield ok("monitoring", f"role {row['role']} may read statistics (pg_monitor)")
    else:
        yield warning(
            "no_pg_monitor",
            f"role {row['role']} is not in pg_monitor: readers of slots, what holds slots back and "
            "the size of the WAL are unknown",
            f"GRANT pg_monitor TO {quoted(row['role'])}",
        )


def check_identities(tables: list[TableFacts]) -> Iterator[Finding]:
    """Yield findings about tables without a usable replica identity, and those under FULL."""
    unusable = [table for table in tables if not table.usable and not table.partitioned]
    if not tables:
        yield note("no_tables", "the database has no tables yet")
    elif not unusable:
        yield ok("identities", f"all {len(tables)} tables have a usable replica identity")
    else:
        yield warning(
            "unusable_tables",
            f"{len(unusable)} of {len(tables)} tables have no usable replica identity; publishing "
            "their updates would make the application's UPDATE and DELETE fail, so replview "
            f"publishes only their inserts: {some_of([str(table) for table in unusable])}",
            "; ".join(_identity_statement(table) for table in unusable[:10]),
        )
    full = [table for table in tables if table.replica_identity == "FULL"]
    if full:
        yield note(
            "full_tables",
            f"{len(full)} tables are under REPLICA IDENTITY FULL: each UPDATE and DELETE writes "
            f"the whole old row to the WAL: {some_of([str(table) for table in full])}",
        )


def check_publications(
    publications: list[Publication], tables: list[TableFacts]
) -> Iterator[Finding]:
    """Yield findings about publications that make an application's UPDATE fail, now or later."""
    unusable = {table.key: table for table in tables if not table.usable}
    for publication in (candidate for candidate in publications if candidate.needs_identity):
        broken = [
            str(unusable_table)
            for table in publication.tables
            if (unusable_table := unusable.get(table.key)) is not None
            and not unusable_table.partitioned
        ]
        if broken:
            yield warning(
                "breaking_publication",
                f"publication {publication.name} publishes updates of tables without a usable "
                f"replica identity: their UPDATE and DELETE fail now: {some_of(broken)}",
                f"ALTER PUBLICATION {quoted(publication.name)} SET (publish = 'insert, truncate')",
            )
        if publication.all_tables:
            yield warning(
                "all_tables",
                f"publication {publication.name} is FOR ALL TABLES: UPDATE and DELETE will fail on "
                "every new table without a primary key",
                "Publish the tables one by one",
            )


def check_rights(may_create: bool, tables: list[TableFacts], database: str) -> Iterator[Finding]:
    """Yield findings about rights to create publications; existing ones need no right."""
    if not may_create:
        yield note(
            "may_not_publish",
            f"the role may not create publications in {database}",
            f"GRANT CREATE ON DATABASE {quoted(database)} TO <role>, "
            "or use an existing publication",
            "publications",
        )
    foreign = [str(table) for table in tables if not table.owned]
    if foreign:
        yield note(
            "not_owner",
            f"the role does not own {len(foreign)} of {len(tables)} tables and cannot publish "
            f"them: {some_of(foreign)}",
            "Create their publication as their owner, and choose it",
            "publications",
        )


def check_partitions(tables: list[TableFacts]) -> Iterator[Finding]:
    """Yield a finding for each partition whose identity is unusable though its parent has one."""
    by_oid = {table.oid: table for table in tables}
    for table in tables:
        parent = by_oid.get(table.parent or 0)
        if parent and parent.usable and not table.usable:
            yield warning(
                "unusable_partition",
                f"partition {table} has no usable replica identity, but {parent} has one: "
                "only inserts of the whole table are published",
                _identity_statement(table),
            )


def _identity_statement(table: TableFacts) -> str:
    """Return the statement that gives a table a usable replica identity."""
    name = quoted(*table.key)
    if table.deferrable_key:
        # A deferrable key cannot be the identity, and a table has only one primary key.
        return f"ALTER TABLE {name} REPLICA IDENTITY FULL"
    if table.primary_key:
        return f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
    return f"ALTER TABLE {name} ADD PRIMARY KEY (…), or ALTER TABLE {name} REPLICA IDENTITY FULL"
