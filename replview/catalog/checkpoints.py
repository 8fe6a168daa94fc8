"""A server's last checkpoint."""

import datetime as dt

import psycopg

from replview.catalog.connections import Connection, Query

MAY_READ = Query(
    name="may_read_checkpoints",
    about="Whether pg_control_checkpoint() may be called: by anyone, unless a managed service "
    "took that away. Asked for, so that no refusal fills its log.",
    sql="SELECT has_function_privilege('pg_control_checkpoint()', 'EXECUTE') AS may",
)
LAST = Query(
    name="last_checkpoint",
    about="When the last checkpoint began that is complete, to the second, from the control file; "
    "on a standby that of the primary at which it could restart.",
    sql="SELECT checkpoint_time AS began_at FROM pg_control_checkpoint()",
)


def may_read_checkpoints(connection: Connection) -> bool:
    return bool(MAY_READ.row(connection)["may"])


def read_last_checkpoint(connection: Connection) -> dt.datetime | None:
    """When it began; None where it is refused all the same (a managed service)."""
    try:
        began_at: dt.datetime | None = LAST.row(connection)["began_at"]
    except (psycopg.ProgrammingError, psycopg.errors.InternalError):
        return None  # refused, or the file was being written (its checksum did not match)
    return began_at
