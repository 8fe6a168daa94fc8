"""This module reads what is open on a source and what waits for it, in two statements.

``holders.read_holders`` reads the same in nine. It is used where the one statement is refused (a
managed service forbids one of its views), because some of the nine may still be allowed.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import psycopg

from decoder.scalars import lsn_from_text
from replview.catalog import holders
from replview.catalog.connections import Connection, Query
from replview.catalog.holders import Holders, read_holders, rows_if_allowed
from replview.catalog.slots import SlotStates

OPEN_NOW = Query(
    name="open_now",
    about="As RUNNING, WAITING, HORIZON and POSITION of ``holders`` together, with how many "
    "subscriptions the database has. The activity of all sessions is gone through once.",
    sql="""
        WITH activity AS MATERIALIZED (
            SELECT pid, datname, usename, application_name, state, xact_start, backend_xid,
                   backend_xmin, backend_type, usesysid, wait_event_type
              FROM pg_stat_activity
        ), running AS MATERIALIZED (
            SELECT pid, datname AS database, usename AS role, application_name, state,
                   xact_start AS xact_started_at, backend_xid::text::bigint AS xid,
                   age(backend_xmin) AS backend_xmin_age,
                   greatest(age(backend_xid), age(backend_xmin)) AS age
              FROM activity
             WHERE (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
               AND pid <> pg_backend_pid()
               AND coalesce(backend_type, '') NOT IN ('walsender', 'autovacuum worker')
               AND usesysid IS NOT NULL
               AND pid NOT IN (SELECT pid FROM pg_stat_get_wal_senders() WHERE pid IS NOT NULL)
        ), role AS MATERIALIZED (
            SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS may_read_stats
        )
        SELECT (age('4'::xid)::bigint + 4) & 4294967295 AS next_xid, role.may_read_stats,
               CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                    ELSE pg_current_wal_lsn() END::text AS lsn,
               clock_timestamp() AS now,
               (SELECT count(*) FROM running) AS running_count,
               (SELECT min(xact_started_at) FROM running) AS oldest_started_at,
               (SELECT json_agg(row_to_json(r)) FROM (
                    SELECT pid, database, role, application_name, state, xact_started_at, xid,
                           backend_xmin_age
                      FROM running ORDER BY age DESC, xact_started_at LIMIT %s) AS r) AS running,
               CASE WHEN role.may_read_stats
                     AND EXISTS (SELECT FROM activity WHERE wait_event_type = 'Lock')
                    THEN (SELECT json_agg(row_to_json(w)) FROM (
                        SELECT transactionid::text::bigint AS xid, count(*) AS sessions
                          FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted
                         GROUP BY 1 ORDER BY 2 DESC LIMIT %s) AS w) END AS waiting,
               (SELECT count(*) FROM pg_subscription AS s
                 WHERE s.subdbid = (SELECT oid FROM pg_database
                                     WHERE datname = current_database())) AS subscriptions
          FROM role
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNow:
    """Open transactions, and the numbers that samples store; None is unknown."""

    holders: Holders
    prepared: int | None = None
    oldest_prepared_seconds: float | None = None
    #: Number of sessions with an xid or a snapshot.
    running: int | None = None
    #: Age of the oldest transaction among sessions whose start this role may see.
    oldest_running_seconds: float | None = None
    #: Number of subscriptions of this database; None: not reported.
    subscriptions: int | None = None


def read_open_now(
    connection: Connection, states: SlotStates, *, may_be_prepared: bool = True
) -> OpenNow:
    """Read what is open, after ``states`` was read on the same connection.

    ``may_be_prepared`` is False where the server's settings allow no prepared transactions.
    """
    prepared: list[dict[str, Any]] | None = []
    try:
        if may_be_prepared:
            limit = holders.PREPARED_LIMIT + 1
            prepared = rows_if_allowed(holders.PREPARED, connection, limit)
        row = OPEN_NOW.json_row(connection, holders.RUNNING_LIMIT, holders.WAITING_LIMIT)
    except psycopg.ProgrammingError:
        return _read_separately(connection)
    holding = _holders(states, prepared, row)
    started = row["oldest_started_at"]
    return OpenNow(
        holders=holding,
        prepared=None if prepared is None else len(prepared),
        oldest_prepared_seconds=_oldest_prepared_seconds(holding, row["now"]),
        running=row["running_count"],
        oldest_running_seconds=None if started is None else _seconds_since(started, row["now"]),
        subscriptions=row["subscriptions"],
    )


def _read_separately(connection: Connection) -> OpenNow:
    """Return the same from separate statements, each of which may be refused."""
    holding = read_holders(connection)
    now = dt.datetime.now(dt.UTC)
    started = [row["xact_started_at"] for row in holding.running or () if row["xact_started_at"]]
    return OpenNow(
        holders=holding,
        prepared=None if holding.prepared is None else len(holding.prepared),
        oldest_prepared_seconds=_oldest_prepared_seconds(holding, now),
        running=None if holding.running is None else len(holding.running),
        oldest_running_seconds=_seconds_since(min(started), now) if started else None,
    )


def _holders(
    states: SlotStates, prepared: list[dict[str, Any]] | None, row: dict[str, Any]
) -> Holders:
    lsn_after = lsn_from_text(row["lsn"])
    lsn_before = states.current_lsn
    slots: dict[str, dict[str, Any]] = {
        name: {column: slot.get(column) for column in holders.HORIZON_COLUMNS}
        for name, slot in states.slots.items()
    }
    for slot in slots.values():
        slot |= {name: int(slot[name]) for name in ("catalog_xmin", "xmin") if slot[name]}
    limit = holders.PREPARED_LIMIT
    waiting = {str(blocker["xid"]): blocker["sessions"] for blocker in row["waiting"] or ()}
    return Holders(
        prepared=None if prepared is None else prepared[:limit],
        prepared_limit=limit if prepared is not None and len(prepared) > limit else None,
        prepared_between=None
        if lsn_before is None or lsn_after is None
        else (lsn_before, lsn_after),
        running=row["running"] or [],
        slots=slots,
        standbys=_standbys(states),
        waiting=waiting if row["may_read_stats"] else None,
        next_xid=row["next_xid"],
        may_read_stats=row["may_read_stats"],
    )


def _standbys(states: SlotStates) -> list[dict[str, Any]]:
    """Return the standbys as ``holders.STANDBYS`` does: those that hold back most come first."""
    by_pid = {slot["active_pid"]: slot for slot in states.slots.values() if slot["active_pid"]}
    standbys = [
        {
            "pid": pid,
            "application_name": walsender["application_name"],
            "backend_xmin_age": walsender["backend_xmin_age"],
            "slot_name": slot.get("slot_name"),
            "slot_xmin_age": slot.get("xmin_age"),
        }
        for pid, walsender in states.walsenders.items()
        if (slot := by_pid.get(pid, {})).get("slot_type") != "logical"
        and walsender["application_name"] != "pg_basebackup"
    ]
    standbys.sort(key=lambda s: -max(s["backend_xmin_age"] or -1, s["slot_xmin_age"] or -1))
    return standbys[: holders.STANDBYS_LIMIT]


def _oldest_prepared_seconds(holding: Holders, now: dt.datetime) -> float | None:
    if not holding.prepared:
        return None
    return _seconds_since(holding.prepared[0]["prepared_at"], now)


def _seconds_since(started_at: dt.datetime, now: dt.datetime) -> float:
    return max((now - started_at).total_seconds(), 0.0)
