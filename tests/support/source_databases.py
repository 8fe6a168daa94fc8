"""Databases of sources: one a test, on a server that a run shares."""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql

from replview.runtime.servers.postgres import EmbeddedPostgres

SOURCE_SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "max_prepared_transactions": 40,
    "track_commit_timestamp": "on",
    "max_replication_slots": 40,
    "max_wal_senders": 40,
}
#: ``REPLVIEW_TEST_SOURCES=12,14``: run what depends on the source's version, and nothing else, on
#: each of these (``make test-versions``). Otherwise ``source`` is 18.
VERSIONS = [
    int(version) for version in os.environ.get("REPLVIEW_TEST_SOURCES", "").split(",") if version
]
_names = itertools.count(1)


@dataclass
class SourceDatabase:
    """One fresh database on a source cluster."""

    server: EmbeddedPostgres
    name: str

    @property
    def dsn(self) -> str:
        """Superuser's address of it, with the password."""
        return self.server.dsn(self.name)

    @property
    def version(self) -> int:
        """The server's major version."""
        return self.server.version

    def create_slot(self, name: str, plugin: str = "pgoutput", *, two_phase: bool = True) -> None:
        """A logical slot, two-phase where the server knows such slots (14 and later)."""
        create = "SELECT pg_create_logical_replication_slot({}, {}, false{})"
        further = sql.SQL(", {}").format(two_phase) if self.version >= 14 else sql.SQL("")
        with self.connect() as connection:
            connection.execute(sql.SQL(create).format(name, plugin, further))

    def connect(self, **options) -> psycopg.Connection:
        """A session of its own, in autocommit mode."""
        return psycopg.connect(self.dsn, autocommit=True, **options)

    def run(self, *statements: str) -> None:
        """Run each as one simple-protocol query string."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)


def fresh_database(server: EmbeddedPostgres, options: str = "") -> Iterator[SourceDatabase]:
    """A database of its own, for a fixture; gone when the test is over, with its slots."""
    name = f"source_{next(_names)}"
    SourceDatabase(server, "postgres").run(
        f"CREATE DATABASE {name} TEMPLATE template0 {options} LOCALE 'C'"
        if options
        else f"CREATE DATABASE {name}"
    )
    try:
        yield SourceDatabase(server, name)
    finally:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            _remove_database(connection, server, name)


def _remove_database(connection: psycopg.Connection, server: EmbeddedPostgres, name: str) -> None:
    """Leave nothing behind: prepared transactions, slots, then the database."""
    with psycopg.connect(server.dsn(name), autocommit=True) as inside:
        prepared = "SELECT gid FROM pg_prepared_xacts WHERE database = %s"
        for (gid,) in inside.execute(prepared, [name]).fetchall():
            inside.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
    sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    connection.execute(sessions, [name])
    slots = "SELECT slot_name FROM pg_replication_slots WHERE database = %s"
    for (slot,) in connection.execute(slots, [name]).fetchall():
        with suppress(psycopg.errors.UndefinedObject):
            _once_free(connection, sql.SQL("SELECT pg_drop_replication_slot({})").format(slot))
    drop = sql.SQL("DROP DATABASE {}").format(sql.Identifier(name))
    if connection.info.server_version >= 130000:
        drop += sql.SQL(" WITH (FORCE)")
    _once_free(connection, drop)


def _once_free(connection: psycopg.Connection, statement: sql.Composed) -> None:
    """Run it as soon as the sessions that were ended have let go, within five seconds."""
    for _ in range(100):
        with suppress(psycopg.errors.ObjectInUse):
            connection.execute(statement)
            return
        time.sleep(0.05)
    connection.execute(statement)
