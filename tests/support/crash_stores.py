"""A store that may be crashed: a server of its own, a migrated database a test, read by SQL.

Not Django's test database: stopping that would take every other fixture along.
"""

import itertools
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.support.copied_clusters import ROOT, STORE_TEMPLATE

_numbers = itertools.count(1)


@dataclass
class CrashStore:
    """One database of a store's server."""

    server: EmbeddedPostgres
    name: str
    #: The port by which receivers reach the store; a proxy's in a test of the network.
    port: int = 0

    @classmethod
    def fresh(cls, server: EmbeddedPostgres) -> "CrashStore":
        """A new database with replview's tables."""
        name = f"crash_store_{next(_numbers)}"
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                    sql.Identifier(name), sql.Identifier(STORE_TEMPLATE)
                )
            )
        return cls(server, name)

    def remove(self) -> None:
        """Drop the database; the server is started first if a test left it stopped."""
        if not self.server.is_ready():
            self.server.start()
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.name))
            )

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables with which a process of replview finds the store."""
        url = self.server.dsn(self.name)
        if self.port:
            url = url.replace(f"127.0.0.1:{self.server.port}", f"127.0.0.1:{self.port}")
        return {**os.environ, "REPLVIEW_STORE_URL": url}

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A session of the test, in autocommit mode."""
        dsn = self.server.dsn(self.name)
        return psycopg.connect(dsn, autocommit=True, connect_timeout=10, **options)

    def rows(self, query: str, parameters: Any = None) -> list[dict[str, Any]]:
        """Return the rows that a query gives, each as a dictionary."""
        with self.connect(row_factory=dict_row) as connection:
            return connection.execute(query, parameters).fetchall()

    def run(self, query: str | bytes, parameters: Any = None) -> None:
        """Run a statement."""
        with self.connect() as connection:
            connection.execute(query, parameters)

    def in_django(self, code: str) -> None:
        """Run a few lines in a process of replview's: what a worker would do by and by."""
        subprocess.run(
            [sys.executable, "manage.py", "shell", "--verbosity", "0", "--command", code],
            cwd=ROOT,
            env=self.environment,
            check=True,
            timeout=120,
        )
