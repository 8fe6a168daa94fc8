"""A cluster that is a few hundred transactions before its ids wrap.

Sources: PostgreSQL documentation, "pg_resetwal", option ``-x``; "The Commit Log" in clog.h.
"""

import psycopg

from replview.runtime.servers.cluster import run_program
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_user import server_user
from tests.support.copied_clusters import copied
from tests.support.source_databases import SOURCE_SETTINGS

WRAP = 1 << 32
#: Transaction ids in one file of the commit log, and that file's size.
_XIDS_PER_FILE = 1 << 20
_FILE_BYTES = 1 << 18


def about_to_wrap(transactions: int) -> EmbeddedPostgres:
    """A started cluster with so many ids left; ``remove`` it."""
    settings = {**SOURCE_SETTINGS, "track_commit_timestamp": "off", "autovacuum": "off"}
    server = copied(settings=settings)
    try:
        server.start()
        _freeze(server)
        server.stop()
        xid = WRAP - transactions
        log_file = server.data_dir / "pg_xact" / f"{xid // _XIDS_PER_FILE:04X}"
        log_file.write_bytes(bytes(_FILE_BYTES))
        log_file.chmod(0o600)
        if account := server_user():
            account.own(log_file)
        run_program(18, "pg_resetwal", "-x", str(xid), "-D", str(server.data_dir))
        server.start()
    except BaseException:
        server.remove()
        raise
    return server


def _freeze(server: EmbeddedPostgres) -> None:
    """No row may name an id that is about to be used again."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        names = "SELECT datname FROM pg_database WHERE datallowconn"
        databases = [name for (name,) in connection.execute(names).fetchall()]
        connection.execute("ALTER DATABASE template0 ALLOW_CONNECTIONS true")
    for name in {*databases, "template0"}:
        with psycopg.connect(server.dsn(name), autocommit=True) as connection:
            connection.execute("VACUUM (FREEZE)")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("ALTER DATABASE template0 ALLOW_CONNECTIONS false")
        connection.execute("VACUUM (FREEZE) pg_database")
