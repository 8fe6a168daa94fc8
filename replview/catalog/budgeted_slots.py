"""This module measures the WAL that a slot with a budget retains, and drops it at the budget."""

# ruff: noqa: S608 (SQL put together from constants)

from dataclasses import dataclass
from typing import Any, LiteralString

from decoder.scalars import LSN, lsn_from_text
from replview.catalog.connections import Connection, Query

# Finds only a logical slot of this database and plugin that retains WAL: not one that is lost
# (which retains nothing), not one synchronized from a primary (whose slot retains the WAL).
# ``to_jsonb`` reads columns that not every version has. OFFSET 0 keeps the planner from moving the
# measurement after the drop.
_SLOT: LiteralString = """
    WITH position AS (
        SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                    ELSE pg_current_wal_lsn() END AS lsn
    ), found AS (
        SELECT s.slot_name, s.active, s.active_pid, s.restart_lsn::text AS restart_lsn,
               s.confirmed_flush_lsn::text AS confirmed_flush_lsn,
               pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint AS retained_wal_bytes
          FROM pg_replication_slots AS s, position AS p
         WHERE s.slot_name = %s AND s.slot_type = 'logical' AND s.plugin = %s
           AND s.database = current_database() AND NOT s.temporary AND s.restart_lsn IS NOT NULL
           AND to_jsonb(s) ->> 'wal_status' IS DISTINCT FROM 'lost'
           AND to_jsonb(s) ->> 'invalidation_reason' IS NULL
           AND to_jsonb(s) ->> 'synced' IS DISTINCT FROM 'true'
        OFFSET 0
    )
"""
MEASURED = Query(
    name="budgeted",
    about="What one slot retains; anyone may read it.",
    sql=_SLOT + "SELECT * FROM found",
)
DROPPED = Query(
    name="drop_over_budget",
    about="Drops one slot if nobody reads it and it retains more than its budget.",
    sql=_SLOT
    + """
    , over_budget AS MATERIALIZED (
        SELECT * FROM found WHERE NOT active AND retained_wal_bytes >= %s
    )
    SELECT *, pg_drop_replication_slot(slot_name) FROM over_budget
    """,
)
READER_ENDED = Query(
    name="end_reader",
    about="Ends the walsender that reads one slot; needs pg_signal_backend or the same role.",
    sql="""
        SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
         WHERE slot_name = %s AND active_pid IS NOT NULL
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetedSlot:
    """A slot that exists and retains WAL."""

    active: bool
    active_pid: int | None
    restart_lsn: LSN
    confirmed_flush_lsn: LSN
    retained_wal_bytes: int


def read_budgeted(connection: Connection, slot_name: str, *, plugin: str) -> BudgetedSlot | None:
    """Return the slot as it is now; None where there is no slot that could be dropped."""
    return _first(MEASURED.rows(connection, slot_name, plugin))


def drop_over_budget(
    connection: Connection, slot_name: str, *, plugin: str, budget_bytes: int
) -> BudgetedSlot | None:
    """Drop the slot if nobody reads it and it is over its budget; None: it was not dropped.

    Raises ``psycopg.Error`` (``ObjectInUse`` if a reader connected in between).
    """
    return _first(DROPPED.rows(connection, slot_name, plugin, budget_bytes))


def end_reader(connection: Connection, slot_name: str) -> None:
    """End the session that reads a slot. Raises ``psycopg.Error`` where that is not allowed."""
    READER_ENDED.rows(connection, slot_name)


def _first(rows: list[dict[str, Any]]) -> BudgetedSlot | None:
    if not rows:
        return None
    row = rows[0]
    return BudgetedSlot(
        active=row["active"],
        active_pid=row["active_pid"],
        restart_lsn=LSN.parse(row["restart_lsn"]),
        confirmed_flush_lsn=lsn_from_text(row["confirmed_flush_lsn"]) or LSN(0),
        retained_wal_bytes=row["retained_wal_bytes"],
    )
