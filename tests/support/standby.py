"""A primary (17 or 18) with a hot standby that keeps its failover slots, and their failover.

Sources: PostgreSQL documentation, "Replication Slot Synchronization", "pg_basebackup".
"""

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from replview.runtime.machine import StackProblem
from replview.runtime.servers.cluster import run_program
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_user import server_user
from tests.support.copied_clusters import copied
from tests.support.source_databases import SOURCE_SETTINGS
from tests.support.waiting import wait_for

#: The physical slot by which the primary keeps WAL for the standby.
PHYSICAL_SLOT = "standby"


class Pair:
    """A primary and its standby; a context manager that removes both."""

    def __init__(self, version: int = 18, **settings: str) -> None:
        #: ``synchronized_standby_slots``: logical slots send nothing the standby has not got.
        self.primary = copied(version, {**SOURCE_SETTINGS, **settings})
        self._folder = Path(tempfile.mkdtemp(prefix="replview-standby-"))
        self._settings = settings
        self.standby: EmbeddedPostgres | None = None

    def __enter__(self) -> "Pair":
        try:
            self.primary.start()
            self.standby = self._make_standby()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self.standby, self.primary):
            if server is not None:
                with suppress(StackProblem):
                    server.stop(mode="immediate")
                server.remove()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_standby(self) -> EmbeddedPostgres:
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            connection.execute("SELECT pg_create_physical_replication_slot(%s, true)",
                               [PHYSICAL_SLOT])  # fmt: skip
        data = self._folder / "data"
        data.mkdir(mode=0o700)
        if account := server_user():
            self._folder.chmod(0o711)
            account.own(data)
        backup = ["--pgdata", str(data), "--dbname", self.primary.dsn(), "--checkpoint=fast"]
        # 18's takes those of older servers, too; not all have one of their own here.
        run_program(18, "pg_basebackup", *backup, "--write-recovery-conf", "--slot", PHYSICAL_SLOT)
        data.with_name("data.password").write_text(self.primary.password)
        settings = self._standby_settings()
        version = self.primary.version
        standby = EmbeddedPostgres(data, version=version, settings=settings, fast=True)
        standby.start()
        return standby

    def _standby_settings(self) -> Mapping[str, str | int]:
        return {
            **SOURCE_SETTINGS,
            "sync_replication_slots": "on",
            "hot_standby_feedback": "on",
            "primary_slot_name": PHYSICAL_SLOT,
            "wal_receiver_status_interval": "100ms",
            "wal_retrieve_retry_interval": "200ms",
        }

    def slot_is_synced(self, name: str) -> None:
        """Wait until the standby could go on with this slot."""
        standby = self.standby
        assert standby is not None

        def synced() -> bool:
            # Its state on the standby follows the running transactions that the primary logs.
            with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
                connection.execute("SELECT pg_log_standby_snapshot()")
            with psycopg.connect(standby.dsn(), autocommit=True) as connection:
                found = connection.execute(
                    "SELECT FROM pg_replication_slots "
                    "WHERE slot_name = %s AND synced AND NOT temporary",
                    [name],
                ).fetchone()
            return found is not None

        wait_for(synced, 120, f"the slot {name} is synchronised to the standby")

    def standby_catches_up(self) -> None:
        """Wait until the standby has replayed all that the primary has written so far."""
        standby = self.standby
        assert standby is not None
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            written = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        with psycopg.connect(standby.dsn(), autocommit=True) as connection:
            replayed = "SELECT FROM pg_last_wal_replay_lsn() AS lsn WHERE lsn >= %s::pg_lsn"
            wait_for(lambda: connection.execute(replayed, written).fetchone() is not None, 120)

    def fail_over(self) -> EmbeddedPostgres:
        """The primary is lost for good; the standby, started if it was stopped, takes its place."""
        standby = self.standby
        assert standby is not None
        self.primary.stop(mode="immediate")
        if not standby.is_ready():
            standby.start()
        with psycopg.connect(standby.dsn(), autocommit=True) as connection:
            # Nothing there waits for the lost primary's slots any more.
            connection.execute("ALTER SYSTEM SET synchronized_standby_slots = ''")
            connection.execute("SELECT pg_promote(true, 120)")
        return standby

    def either_dsn(self, database: str) -> str:
        """The address of both, by which libpq finds the one that takes writes."""
        assert self.standby is not None
        parts = urlsplit(self.primary.dsn(database))
        return (
            f"host=127.0.0.1,127.0.0.1 port={self.primary.port},{self.standby.port} "
            f"user={parts.username} password={parts.password} dbname={database} "
            "target_session_attrs=read-write"
        )
