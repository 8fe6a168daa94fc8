"""This module reads slots and their readers, with the columns that the server's version has."""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from decoder.scalars import LSN, lsn_from_text
from replview.catalog.connections import Connection, Query

# One statement reads all slots, walsenders and counters, for samples every few seconds. It is
# planned once for each connection, and returns JSON because columns differ between versions. LSNs
# and xids are text, as in the views.

#: Number of slots that are read at most.
_SLOTS_LIMIT = 1000
_STATES = """
    WITH position AS MATERIALIZED (
        SELECT r.in_recovery, CASE WHEN r.in_recovery THEN pg_last_wal_replay_lsn()
                                   ELSE pg_current_wal_lsn() END AS lsn
          FROM (SELECT pg_is_in_recovery() AS in_recovery) AS r
    )
    SELECT p.lsn::text AS lsn, p.in_recovery,
           (SELECT json_agg(row_to_json(found)) FROM (
                SELECT s.*,
                       pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint AS retained_wal_bytes,
                       pg_wal_lsn_diff(p.lsn, s.confirmed_flush_lsn)::bigint
                           AS unconfirmed_wal_bytes,
                       age(s.catalog_xmin) AS catalog_xmin_age, age(s.xmin) AS xmin_age
                  FROM pg_replication_slots AS s
                 ORDER BY s.slot_name LIMIT %s) AS found) AS slots,
           (SELECT json_agg(row_to_json(found)) FROM (
                SELECT w.*, extract(epoch FROM w.write_lag)::float8 AS write_lag_seconds,
                       extract(epoch FROM w.flush_lag)::float8 AS flush_lag_seconds,
                       extract(epoch FROM w.replay_lag)::float8 AS replay_lag_seconds,
                       age(w.backend_xmin) AS backend_xmin_age
                  FROM pg_stat_replication AS w) AS found) AS walsenders,
           {counters} AS counters
      FROM position AS p
"""
_COUNTERS = "(SELECT json_agg(row_to_json(c)) FROM pg_stat_replication_slots AS c)"
SLOT_STATES = Query(
    name="slot_states",
    about="Position, slots, walsenders and counters of decoding, 14 and later; of walsenders, "
    "positions and times only for a member of pg_read_all_stats.",
    sql=sql.SQL(_STATES).format(counters=sql.SQL(_COUNTERS)).as_string(),
)
_SLOT_STATES_BEFORE_14 = replace(
    SLOT_STATES, sql=sql.SQL(_STATES).format(counters=sql.SQL("NULL::json")).as_string()
)
#: Columns that are left out, because they are read in seconds too.
_INTERVALS = ("write_lag", "flush_lag", "replay_lag")
SLOTS = Query(
    name="slots",
    about="All slots of the cluster with the WAL each holds; anyone may read it.",
    sql="""
        WITH position AS (
            SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                        ELSE pg_current_wal_lsn() END AS lsn
        )
        SELECT s.*,
               pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint AS retained_wal_bytes,
               pg_wal_lsn_diff(p.lsn, s.confirmed_flush_lsn)::bigint AS unconfirmed_wal_bytes
          FROM pg_replication_slots AS s, position AS p
         ORDER BY s.slot_name
    """,
)
STAT_REPLICATION = Query(
    name="stat_replication",
    about="The walsenders; positions and times only for a member of pg_read_all_stats.",
    sql="SELECT * FROM pg_stat_replication ORDER BY pid",
)
_LSN_COLUMNS = {"restart_lsn", "confirmed_flush_lsn", "two_phase_at"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStates:
    """A sample of the slots of a cluster. A column that the version lacks is absent, not None."""

    #: The position written on a primary, or replayed on a standby.
    current_lsn: LSN | None
    in_recovery: bool
    #: Rows of pg_replication_slots with ``retained_wal_bytes``, ``unconfirmed_wal_bytes`` and the
    #: ages of their xmins, by name.
    slots: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Rows of pg_stat_replication with their lags in seconds, by process id.
    walsenders: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: Rows of pg_stat_replication_slots, by slot name; none before 14.
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_slot_states(connection: Connection) -> SlotStates:
    """Read all slots, walsenders and counters in one statement. Raises ``psycopg.Error``."""
    has_counters = connection.info.server_version >= 140000
    query = SLOT_STATES if has_counters else _SLOT_STATES_BEFORE_14
    row = query.json_row(connection, _SLOTS_LIMIT)
    walsenders = {
        walsender["pid"]: {key: walsender[key] for key in walsender if key not in _INTERVALS}
        for walsender in row["walsenders"] or ()
    }
    return SlotStates(
        current_lsn=lsn_from_text(row["lsn"]),
        in_recovery=row["in_recovery"],
        slots={slot["slot_name"]: slot for slot in row["slots"] or ()},
        walsenders=walsenders,
        counters={counter_row["slot_name"]: counter_row for counter_row in row["counters"] or ()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFacts:
    """A row of pg_replication_slots. None is unknown to this server, never zero."""

    slot_name: str
    slot_type: str
    active: bool
    plugin: str | None = None
    database: str | None = None
    temporary: bool | None = None
    active_pid: int | None = None
    restart_lsn: LSN | None = None
    confirmed_flush_lsn: LSN | None = None
    #: 13 and later: reserved, extended, unreserved, lost.
    wal_status: str | None = None
    #: 13 and later: WAL that may still be written before the slot is in danger.
    safe_wal_size: int | None = None
    #: Reported by 14 and later.
    two_phase: bool | None = None
    #: Reported by 18 and later.
    two_phase_at: LSN | None = None
    #: Reported by 16 and later.
    conflicting: bool | None = None
    #: Reported by 17 and later, with the three fields that follow.
    invalidation_reason: str | None = None
    inactive_since: datetime | None = None
    failover: bool | None = None
    synced: bool | None = None
    #: Current position minus restart_lsn; None for a lost slot, which retains nothing.
    retained_wal_bytes: int | None = None
    #: Current position minus confirmed_flush_lsn.
    unconfirmed_wal_bytes: int | None = None
    #: Every other column, as the server spells it.
    further: dict[str, Any] = field(default_factory=dict)


def read_slots(connection: Connection) -> list[SlotFacts]:
    """Return all slots of the cluster, by name."""
    fact_names = {field.name for field in fields(SlotFacts)}
    slots = []
    for row in SLOTS.rows(connection):
        values: dict[str, Any] = {name: row[name] for name in row.keys() & fact_names}
        for name in _LSN_COLUMNS & values.keys():
            values[name] = lsn_from_text(values[name])
        other_columns = plain({name: row[name] for name in row if name not in fact_names})
        slots.append(SlotFacts(**values, further=other_columns))
    return slots


def read_stat_replication(connection: Connection) -> dict[int, dict[str, Any]]:
    """Return the walsenders by process id, in JSON's types, times in seconds."""
    return {row["pid"]: plain(row) for row in STAT_REPLICATION.rows(connection)}


def plain(row: dict[str, Any]) -> dict[str, object]:
    """Return a row in JSON's types.

    Intervals become seconds, with ``_seconds`` added to the name; other types become text.
    """
    result: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, timedelta):
            result[f"{name}_seconds"] = value.total_seconds()
        elif isinstance(value, datetime):
            result[name] = value.isoformat()
        else:
            is_json_type = value is None or isinstance(value, bool | int | float | str)
            result[name] = value if is_json_type and not isinstance(value, LSN) else str(value)
    return result
