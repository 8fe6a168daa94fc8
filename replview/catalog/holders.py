"""This module reads what holds a source's WAL and vacuum back.

This can be prepared and running transactions, slots, and standbys. Ages are in transactions where
PostgreSQL counts so. ``HORIZON`` reads the next xid, from which the age of a stored xid can be
computed later without a query. No query texts are read.
"""

from dataclasses import dataclass
from typing import Any

import psycopg

from decoder.scalars import LSN
from replview.catalog.connections import Connection, Query
from replview.catalog.server import read_position
from replview.text.formats import age_words

OPEN_TRANSACTIONS = Query(
    name="open_transactions",
    about="Sessions with an xid, of all databases; anyone may read who and how long, not what.",
    sql="""
        SELECT pid, datname AS database, usename AS role, application_name, state,
               backend_xid::text::bigint AS xid,
               extract(epoch FROM clock_timestamp() - xact_start)::float AS age_seconds
          FROM pg_stat_activity
         WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
         ORDER BY xact_start
    """,
)
PREPARED_TRANSACTIONS = Query(
    name="prepared_transactions",
    about="Transactions prepared and not yet finished, of all databases; anyone may read it.",
    sql="""
        SELECT gid, database, owner AS role,
               extract(epoch FROM clock_timestamp() - prepared)::float AS age_seconds
          FROM pg_prepared_xacts
         ORDER BY prepared
    """,
)
#: More prepared transactions than this are not read.
PREPARED_LIMIT = 5000
#: More sessions than this are not read; the oldest come first.
RUNNING_LIMIT = 50
_SLOTS_LIMIT = 500
STANDBYS_LIMIT = 50
WAITING_LIMIT = 200
PREPARED = Query(
    name="prepared_holders",
    about="Transactions prepared and not yet finished, of all databases; anyone may read it.",
    sql="""
        SELECT gid, transaction::text::bigint AS xid, prepared AS prepared_at, owner, database
          FROM pg_prepared_xacts
         ORDER BY prepared, gid
         LIMIT %s
    """,
)
RUNNING = Query(
    name="running_holders",
    about="Sessions with an xid or a snapshot, oldest first; state and start only for "
    "pg_read_all_stats. Vacuums are left out: no other vacuum waits for them.",
    sql="""
        SELECT pid, datname AS database, usename AS role, application_name, state,
               xact_start AS xact_started_at, backend_xid::text::bigint AS xid,
               age(backend_xmin) AS backend_xmin_age
          FROM pg_stat_activity
         WHERE (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) AND pid <> pg_backend_pid()
           AND coalesce(backend_type, '') NOT IN ('walsender', 'autovacuum worker')
           -- Of others' sessions a plain role is not shown the type: workers have no role.
           AND usesysid IS NOT NULL AND pid NOT IN (SELECT r.pid FROM pg_stat_replication AS r)
         ORDER BY greatest(age(backend_xid), age(backend_xmin)) DESC, xact_start
         LIMIT %s
    """,
)
SLOT_HORIZONS = Query(
    name="slot_horizons",
    about="What each slot keeps: WAL from restart_lsn, row versions from its xmins.",
    sql="""
        WITH position AS (
            SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                        ELSE pg_current_wal_lsn() END AS lsn
        )
        SELECT slot_name, slot_type, database, active, restart_lsn::text, confirmed_flush_lsn::text,
               pg_wal_lsn_diff(p.lsn, restart_lsn)::bigint AS retained_wal_bytes,
               pg_wal_lsn_diff(p.lsn, confirmed_flush_lsn)::bigint AS unconfirmed_wal_bytes,
               catalog_xmin::text::bigint AS catalog_xmin, age(catalog_xmin) AS catalog_xmin_age,
               xmin::text::bigint AS xmin, age(xmin) AS xmin_age
          FROM pg_replication_slots, position AS p
         ORDER BY slot_name
         LIMIT %s
    """,
)
STANDBYS = Query(
    name="standby_feedback",
    about="Standbys that stream, and the xmin each feeds back (NULL: none, or through its slot).",
    sql="""
        SELECT r.pid, r.application_name, age(r.backend_xmin) AS backend_xmin_age, s.slot_name,
               age(s.xmin) AS slot_xmin_age
          FROM pg_stat_replication AS r LEFT JOIN pg_replication_slots AS s ON s.active_pid = r.pid
         WHERE s.slot_type IS DISTINCT FROM 'logical'
           AND r.application_name IS DISTINCT FROM 'pg_basebackup'
         ORDER BY greatest(age(r.backend_xmin), age(s.xmin)) DESC NULLS LAST, r.pid
         LIMIT %s
    """,
)
WAITING = Query(
    name="waiting_for",
    about="How many sessions wait for each transaction to end. The locks are read only while a "
    "session waits; a role that may not see waiting sessions gets no rows.",
    sql="""
        SELECT transactionid::text::bigint AS xid, count(*) AS sessions
          FROM pg_locks
         WHERE locktype = 'transactionid' AND NOT granted
           AND EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')
         GROUP BY 1 ORDER BY 2 DESC
         LIMIT %s
    """,
)
HORIZON = Query(
    name="horizon",
    about="The next xid (no snapshot tells it: theirs end with what has ended), and what this role "
    "may see. Of xids below 3 the age is infinite, so that of another one is taken.",
    sql="""
        SELECT (age('4'::xid)::bigint + 4) & 4294967295 AS next_xid,
               pg_has_role('pg_read_all_stats', 'USAGE') AS may_read_stats
    """,
)
#: Columns of SLOT_HORIZONS other than the name.
HORIZON_COLUMNS = (
    "slot_type", "database", "active", "restart_lsn", "confirmed_flush_lsn",
    "retained_wal_bytes", "unconfirmed_wal_bytes", "catalog_xmin", "catalog_xmin_age",
    "xmin", "xmin_age",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingTransaction:
    """A transaction that holds an xid: in a session (``pid``) or prepared (``gid``)."""

    database: str | None
    role: str | None
    #: None where the role may not see it.
    age_seconds: float | None
    pid: int | None = None
    xid: int | None = None
    gid: str | None = None
    application_name: str | None = None
    #: ``active``, ``idle in transaction``, ``prepared`` …
    state: str | None = None

    def __str__(self) -> str:
        session = f"{self.role or 'unknown role'} in {self.database or 'unknown database'}"
        age = "an unknown time" if self.age_seconds is None else age_words(self.age_seconds)
        if self.gid is not None:
            return f"prepared transaction {self.gid} ({session}, for {age})"
        name = f", {self.application_name}" if self.application_name else ""
        return f"process {self.pid} ({session}{name}, {self.state or 'state unknown'}, for {age})"


def read_open_transactions(connection: Connection) -> list[HoldingTransaction]:
    """Return what a slot created now would wait for, oldest first, prepared ones last."""
    sessions = [HoldingTransaction(**row) for row in OPEN_TRANSACTIONS.rows(connection)]
    prepared = PREPARED_TRANSACTIONS.rows(connection)
    return sessions + [HoldingTransaction(**row, state="prepared") for row in prepared]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """The result of one sample of a source; None means unknown (not reported or not allowed)."""

    #: ``{"gid", "xid", "prepared_at", "owner", "database"}``, oldest first.
    prepared: list[dict[str, Any]] | None = None
    #: The limit at which ``prepared`` was cut off; None where it is complete.
    prepared_limit: int | None = None
    #: The server's position before and after the list was read.
    prepared_between: tuple[LSN, LSN] | None = None
    #: ``{"pid", "database", "role", "application_name", "state", "xact_started_at", "xid",
    #: "backend_xmin_age"}``, oldest first.
    running: list[dict[str, Any]] | None = None
    #: Positions, xmins, and ages of the xmins in transactions, by slot name.
    slots: dict[str, dict[str, Any]] | None = None
    #: ``{"pid", "application_name", "backend_xmin_age", "slot_name", "slot_xmin_age"}``.
    standbys: list[dict[str, Any]] | None = None
    #: Number of waiting sessions, by the xid they wait for.
    waiting: dict[str, int] | None = None
    #: The next transaction's xid, 32 bits.
    next_xid: int | None = None
    #: True if this role may see state and start of other roles' sessions.
    may_read_stats: bool | None = None


def read_holders(connection: Connection) -> Holders:
    """Read everything that holds WAL or vacuum back; a part that cannot be read is None."""
    lsn_before = read_position(connection)
    prepared = rows_if_allowed(PREPARED, connection, PREPARED_LIMIT + 1)
    lsn_after = read_position(connection)
    cut = prepared is not None and len(prepared) > PREPARED_LIMIT
    slots = rows_if_allowed(SLOT_HORIZONS, connection, _SLOTS_LIMIT)
    horizon = (rows_if_allowed(HORIZON, connection) or [{}])[0]
    may_read_stats = horizon.get("may_read_stats")
    waiting = rows_if_allowed(WAITING, connection, WAITING_LIMIT) if may_read_stats else None
    return Holders(
        prepared=None if prepared is None else prepared[:PREPARED_LIMIT],
        prepared_limit=PREPARED_LIMIT if cut else None,
        prepared_between=None
        if lsn_before is None or lsn_after is None
        else (lsn_before, lsn_after),
        running=rows_if_allowed(RUNNING, connection, RUNNING_LIMIT),
        slots=None if slots is None else {row.pop("slot_name"): row for row in slots},
        standbys=rows_if_allowed(STANDBYS, connection, STANDBYS_LIMIT),
        waiting=None if waiting is None else {str(w["xid"]): w["sessions"] for w in waiting},
        next_xid=horizon.get("next_xid"),
        may_read_stats=may_read_stats,
    )


def rows_if_allowed(
    query: Query, connection: Connection, *parameters: Any
) -> list[dict[str, Any]] | None:
    """Return the rows; None where the server refuses or lacks them, or a name is not UTF-8."""
    try:
        return query.rows(connection, *parameters)
    except (psycopg.ProgrammingError, UnicodeDecodeError):
        return None
