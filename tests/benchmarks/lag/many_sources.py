"""A hundred sources of ten slots each, on one server: every source is a database of its own.

Slots are the whole cluster's, so that each of a hundred databases would tell all thousand. Here
``pg_replication_slots`` is replaced, in each database, by a view that keeps the slots named after
the database: a look then reads and stores ten, as it would of a server with ten. What the server
does for it is more than of such a server; what the sampler does is the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from replview.runtime.servers.postgres import EmbeddedPostgres

#: Reads what a monitoring role may read.
ROLE, _PASSWORD = "sampler", "bench-sampler"
_TEMPLATE = "bench_template"
#: Logical ones take part in decoding's counters; physical ones are quick to make.
LOGICAL_EACH = 3
_SETTINGS: dict[str, str | int] = {
    # A session of each source, kept or not, and those that make the slots.
    "max_connections": 260,
    "max_wal_size": "4GB",
    "autovacuum": "off",
    "wal_keep_size": "64MB",
}


@dataclass(frozen=True, slots=True)
class ManySources:
    """The server and the names of its databases, each of which is a source."""

    server: EmbeddedPostgres
    names: list[str]
    slots_each: int

    def dsn(self, name: str) -> str:
        """Return the DSN with which replview connects to the source of this name."""
        return self.server.dsn(name, ROLE, _PASSWORD)

    def write_some_wal(self) -> None:
        """Move the server's position, so that the slots' figures move."""
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_logical_emit_message(false, 'bench', repeat('x', 8000))"
                " FROM generate_series(1, 20)"
            )


@contextmanager
def many_sources(count: int, slots_each: int) -> Iterator[ManySources]:
    """A server with so many databases, and so many slots each."""
    slots = count * slots_each
    settings = _SETTINGS | {"max_replication_slots": slots + 20}
    with EmbeddedPostgres.temporary(settings=settings) as server:
        made = ManySources(server, [f"s{n:03}" for n in range(count)], slots_each)
        _make_template(server)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for name in made.names:
                connection.execute(
                    sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                        sql.Identifier(name), sql.Identifier(_TEMPLATE)
                    )
                )
            for name in made.names:
                _make_physical(connection, name, slots_each)
        for name in made.names:
            _make_logical(server, name, slots_each)
        yield made


def _make_template(server: EmbeddedPostgres) -> None:
    """A database whose ``pg_replication_slots`` tells the slots named after the database."""
    server.create_database(_TEMPLATE)
    with psycopg.connect(server.dsn(_TEMPLATE), autocommit=True) as connection:
        connection.execute("SET allow_system_table_mods = on")
        row = connection.execute(
            "SELECT pg_get_viewdef('pg_catalog.pg_replication_slots'::regclass)"
        ).fetchone()
        assert row is not None
        ours = f"SELECT * FROM ({row[0].rstrip().rstrip(';')}) AS every WHERE slot_name::text ~ "
        ours += "('^' || current_database() || '_')"
        connection.execute(f"CREATE OR REPLACE VIEW pg_catalog.pg_replication_slots AS {ours}")
        connection.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{_PASSWORD}' IN ROLE pg_monitor")
        connection.execute("CREATE TABLE watched (id int PRIMARY KEY, note text)")
        connection.execute("CREATE PUBLICATION bench FOR TABLE watched")


def _make_physical(connection: psycopg.Connection[tuple[object, ...]], name: str, of: int) -> None:
    connection.execute(
        "SELECT count(pg_create_physical_replication_slot(%s || '_p' || n, true))"
        " FROM generate_series(1, %s) AS n",
        [name, of - LOGICAL_EACH],
    )


def _make_logical(server: EmbeddedPostgres, name: str, of: int) -> None:
    """Create a database's logical slots; the last one is replview's."""
    with psycopg.connect(server.dsn(name), autocommit=True) as connection:
        for number in range(min(LOGICAL_EACH, of)):
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')",
                [f"{name}_l{number}"],
            )
