"""This module reads the size of a server's WAL directory."""

import psycopg

from replview.catalog.connections import Connection, Query

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
    """Return whether the role may call ``pg_ls_waldir()``."""
    return bool(MAY_LIST.row(connection)["may"])


def read_wal_directory_bytes(connection: Connection) -> int | None:
    """Return the size of the directory; None where a managed service refuses it.

    The server examines every file there, which takes longer the more there are.
    """
    try:
        return int(WAL_DIRECTORY.row(connection)["size_bytes"])
    except (psycopg.ProgrammingError, psycopg.errors.UndefinedFile):
        # UndefinedFile: a segment was removed meanwhile, which is no error of ours.
        return None
