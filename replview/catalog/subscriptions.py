"""This module reads the subscriptions of a source's database, their workers and their errors.

A source that itself subscribes may be behind its publisher; its slots are then behind too.
"""

from typing import Any

import psycopg
from psycopg import sql

from replview.catalog.connections import Connection, ForgivingJson, Query

READABLE = Query(
    name="subscription_columns",
    about="The columns of pg_subscription that this role may read, always without the connection "
    "string.",
    sql="""
        SELECT attname AS name FROM pg_attribute
         WHERE attrelid = 'pg_subscription'::regclass AND attnum > 0 AND NOT attisdropped
           AND attname NOT IN ('subconninfo', 'subdbid')
           AND has_column_privilege('pg_subscription', attname, 'SELECT')
         ORDER BY attnum
    """,
)
_SUBSCRIPTIONS = """
    SELECT coalesce(json_agg(row_to_json(found)), '[]') AS subscriptions FROM (
        SELECT {columns},
               (SELECT json_agg(row_to_json(w)) FROM pg_stat_subscription AS w
                 WHERE w.subid = s.oid) AS workers,
               {stats} AS stats
          FROM pg_subscription AS s
         WHERE s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
         ORDER BY s.subname) AS found
"""
#: The counters of errors, 15 and later.
_STATS = (
    "(SELECT row_to_json(c) FROM pg_stat_subscription_stats AS c WHERE c.subid = s.oid LIMIT 1)"
)


def read_subscription_columns(connection: Connection) -> list[str]:
    """Return the columns of pg_subscription that the role may read."""
    return [row["name"] for row in READABLE.rows(connection)]


def read_subscriptions(
    connection: Connection, columns: list[str]
) -> dict[str, dict[str, Any]] | None:
    """Return the subscriptions of the database by name; None where a view is refused.

    Each has the ``columns`` of pg_subscription, the columns of pg_stat_subscription for the apply
    worker (absent where none is listed), those of pg_stat_subscription_stats, and ``workers``: all
    rows of pg_stat_subscription, including parallel apply and table synchronization.
    """
    # The names are those of PostgreSQL's own columns; they are quoted all the same.
    query = sql.SQL(_SUBSCRIPTIONS).format(
        columns=sql.SQL(", ").join(sql.Identifier("s", name) for name in columns),
        stats=sql.SQL(_STATS if connection.info.server_version >= 150000 else "NULL::json"),
    )
    try:
        with connection.cursor() as cursor:
            cursor.adapters.register_loader("json", ForgivingJson)
            row = cursor.execute(query).fetchone()
    except psycopg.ProgrammingError:
        return None
    assert row is not None
    return {subscription["subname"]: _subscription_facts(subscription) for subscription in row[0]}


def _subscription_facts(subscription: dict[str, Any]) -> dict[str, object]:
    workers = [
        {name: value for name, value in worker.items() if name not in ("subid", "subname")}
        for worker in subscription.pop("workers") or ()
    ]
    stats = subscription.pop("stats") or {}
    apply = next((w for w in workers if w.get("relid") is None and w.get("leader_pid") is None), {})
    counts = {name: value for name, value in stats.items() if name not in ("subid", "subname")}
    return {**subscription, **apply, **counts, "workers": workers}
