"""This module reads when a server's last checkpoint began."""

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
    """Return whether the role may call ``pg_control_checkpoint()``."""
    return bool(MAY_READ.row(connection)["may"])


def read_last_checkpoint(connection: Connection) -> dt.datetime | None:
    """Return when the last checkpoint began; None where the server refuses to say."""
    try:
        began_at: dt.datetime | None = LAST.row(connection)["began_at"]
    except (psycopg.ProgrammingError, psycopg.errors.InternalError):
        # A managed service refuses it, or the file was being written (its checksum is wrong).
        return None
    return began_at
