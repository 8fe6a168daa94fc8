"""The settings on which a slot's survival of a failover depends: of 17 and later."""

from typing import Any

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

FAILOVER_SETTINGS = Query(
    name="failover_settings",
    about="What keeps slots on a standby in step; anyone may read it, but of primary_conninfo "
    "(which may hold a password, so only whether it names a database) just pg_read_all_settings.",
    sql="""
        SELECT current_setting('synchronized_standby_slots', true) AS synchronized_standby_slots,
               current_setting('sync_replication_slots', true) AS sync_replication_slots,
               current_setting('hot_standby_feedback', true) AS hot_standby_feedback,
               current_setting('primary_slot_name', true) AS primary_slot_name,
               CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE')
                    THEN current_setting('primary_conninfo', true) ~ 'dbname|://[^/]*/[^?]'
               END AS primary_conninfo_names_database
    """,
)


def read_failover_settings(connection: Connection) -> dict[str, Any]:
    """By name; empty where the version has none of them, None where this role may not know."""
    if connection.info.server_version < 170000:
        return {}
    return FAILOVER_SETTINGS.row(connection)
