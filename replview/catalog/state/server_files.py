"""Facts of files on the server: the size of the WAL directory, the time of the last checkpoint."""

import datetime as dt

import psycopg

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

MAY_LIST = Query(
    name="may_list_wal_directory",
    about="Whether pg_ls_waldir() may be called: asked for, so that no refusal fills its log.",
    sql="SELECT has_function_privilege('pg_ls_waldir()', 'EXECUTE') AS may",
)
WAL_DIRECTORY = Query(
    name="wal_directory",
    about="Bytes of all WAL segments that are there; for members of pg_monitor.",
    sql="SELECT coalesce(sum(size), 0)::bigint AS size_bytes FROM pg_ls_waldir()",
)


def may_list_wal_directory(connection: Connection) -> bool:
    """Whether this role may know."""
    return bool(MAY_LIST.row(connection)["may"])


def read_wal_directory_bytes(connection: Connection) -> int | None:
    """The size now; None where it is refused all the same (a managed service).

    It looks at every file there, which takes longer the more there are.
    """
    try:
        return int(WAL_DIRECTORY.row(connection)["size_bytes"])
    except (psycopg.ProgrammingError, psycopg.errors.UndefinedFile):
        return None  # a segment that was removed meanwhile is no error of ours either


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
    """Whether this role may know."""
    return bool(MAY_READ.row(connection)["may"])


def read_last_checkpoint(connection: Connection) -> dt.datetime | None:
    """When it began; None where it is refused all the same (a managed service)."""
    try:
        began_at: dt.datetime | None = LAST.row(connection)["began_at"]
    except (psycopg.ProgrammingError, psycopg.errors.InternalError):
        return None  # refused, or the file was being written (its checksum did not match)
    return began_at
