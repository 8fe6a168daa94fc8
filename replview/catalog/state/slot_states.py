"""All slots of a cluster, who reads them, and what they decoded, in one statement.

For looks that come every few seconds: planned once a connection, a row of JSON whatever columns
the server's version has. LSNs and xids come as text, as the views show them.
"""

from dataclasses import dataclass, field
from typing import Any

from decoder.scalars import LSN
from replview.catalog.connections import Connection
from replview.catalog.queries import Query

#: More slots than this are not read.
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
           (SELECT json_agg(row_to_json(c)) FROM pg_stat_replication_slots AS c) AS counters
      FROM position AS p
"""
SLOT_STATES = Query(
    name="slot_states",
    about="Position, slots, walsenders and counters of decoding, 14 and later; of walsenders, "
    "positions and times only for a member of pg_read_all_stats.",
    sql=_STATES,
)
#: Told in seconds instead.
_INTERVALS = ("write_lag", "flush_lag", "replay_lag")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStates:
    """One look at the slots of a cluster. A column the version lacks is absent, never None."""

    #: Written on a primary, replayed on a standby.
    current_lsn: LSN | None
    in_recovery: bool
    #: Rows of pg_replication_slots with ``retained_wal_bytes``, ``unconfirmed_wal_bytes`` and the
    #: ages of their xmins, by name.
    slots: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Rows of pg_stat_replication with their lags in seconds, by process id.
    walsenders: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: Rows of pg_stat_replication_slots, by slot name.
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_slot_states(connection: Connection) -> SlotStates:
    """The slots of a cluster now."""
    row = SLOT_STATES.json_row(connection, _SLOTS_LIMIT)
    walsenders = {walsender["pid"]: walsender for walsender in row["walsenders"] or ()}
    for walsender in walsenders.values():
        for name in _INTERVALS:
            walsender.pop(name, None)
    return SlotStates(
        current_lsn=None if row["lsn"] is None else LSN.parse(row["lsn"]),
        in_recovery=row["in_recovery"],
        slots={slot["slot_name"]: slot for slot in row["slots"] or ()},
        walsenders=walsenders,
        counters={counted["slot_name"]: counted for counted in row["counters"] or ()},
    )
