"""Fresh clusters for a benchmark, what fills them, and who reads them.

Fresh, because a slot that has long held old catalog rows slows the walsender itself.
"""

import json
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_programs import pg_bin
from tests.benchmarks.processes import Failed, module, run, running, said

SOURCE = {"max_replication_slots": 20, "max_wal_size": "8GB", "shared_buffers": "256MB"}
#: Stored data is flushed to disk before it is confirmed, as in production.
STORE: dict[str, str | int] = {
    "fsync": "on",
    "max_wal_size": "8GB",
    "shared_buffers": "512MB",
    "checkpoint_timeout": "30min",
}

EIGHT_COLUMNS = """
CREATE TABLE measured (
    id bigint PRIMARY KEY, customer int NOT NULL, product int NOT NULL, quantity smallint NOT NULL,
    price numeric(10,2) NOT NULL, status text NOT NULL, at timestamptz NOT NULL, note text NOT NULL
)
"""
INSERT = """
INSERT INTO measured SELECT n, n % 10000, n % 500, n % 7, (n % 1000) + 0.25, 'pending',
    now(), 'a short note of the row' FROM generate_series({first}, {last}) AS n
"""
_LOOK_SECONDS = 0.05
#: Longer than any benchmark's largest load takes on a slow machine.
_STORED_SECONDS = 180


@dataclass
class Bench:
    """A source, a store, a folder for logs, and what to call them."""

    source: EmbeddedPostgres
    store: EmbeddedPostgres
    folder: Path

    def __post_init__(self) -> None:
        self.environment = {
            **os.environ,
            "REPLVIEW_STORE_URL": self.store.dsn("replview"),
            "REPLVIEW_DATA": str(self.folder),
            "REPLVIEW_SECRET_KEY": secrets.token_urlsafe(24),
            "REPLVIEW_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "replview.settings",
            "BENCH_SOURCE": self.source.dsn("bench"),
            "BENCH_FOLDER": str(self.folder),
        }

    def on_source(self, *statements: str) -> None:
        """Run each on the source."""
        with psycopg.connect(self.source.dsn("bench"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def store_row(self, query: str, *parameters: object) -> tuple[object, ...] | None:
        """The first row."""
        with psycopg.connect(self.store.dsn("replview"), autocommit=True) as connection:
            return connection.execute(query, parameters).fetchone()

    def source_position(self) -> str:
        """Return the source's current WAL position, as PostgreSQL writes an LSN."""
        with psycopg.connect(self.source.dsn("bench"), autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])

    @contextmanager
    def slots(self, *names: str) -> Iterator[None]:
        """Slots that all start here, dropped at the end of the block."""
        for name in names:
            self.on_source(
                f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', false, true)"
            )
        yield
        for name in names:
            self._drop(name)

    def _drop(self, slot: str) -> None:
        """Drop it, once the walsender of a reader that just ended has noticed."""
        for _ in range(200):
            with suppress(psycopg.errors.ObjectInUse):
                return self.on_source(f"SELECT pg_drop_replication_slot('{slot}')")
            time.sleep(0.1)
        raise Failed(f"the slot {slot} stays in use")

    def load(self, rows: int, rows_per_transaction: int) -> str:
        """Insert ``rows`` new rows, so many a transaction, and say where the WAL then ends."""
        single = rows_per_transaction == 1
        statement = INSERT.format(
            first="i" if single else f"i * {rows_per_transaction} + 1",
            last="i" if single else f"(i + 1) * {rows_per_transaction}",
        )
        count = rows if single else rows // rows_per_transaction
        self.on_source(
            "TRUNCATE measured",
            "SET synchronous_commit = off",
            f"DO $$ BEGIN FOR i IN 0..{count - 1} LOOP {statement}; COMMIT; END LOOP; END $$",
            "CHECKPOINT",
        )
        return self.source_position()

    def recvlogical_seconds(self, slot: str, end_lsn: str) -> float:
        """Return the seconds ``pg_recvlogical`` takes to read the slot, with replview's options."""
        options = {
            "proto_version": "4",
            "publication_names": "bench",
            "streaming": "parallel",
            "messages": "true",
            "two_phase": "on",
        }
        command = [str(pg_bin(18) / "pg_recvlogical"), "-d", self.source.dsn("bench")]
        command += ["--slot", slot, "--start", "--no-loop", "--endpos", end_lsn, "-f", "/dev/null"]
        for name, value in options.items():
            command += ["-o", f"{name}={value}"]
        started = time.monotonic()
        run(command, self.environment, self.folder / f"{slot}.log")
        return time.monotonic() - started

    @contextmanager
    def receiver(
        self, slot: str, options: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process that receives the slot, told to stop at the end."""
        argv = module("tests.benchmarks.receiver_process", slot, json.dumps(options or {}))
        with running(argv, self.environment, self.folder / f"{slot}.log") as process:
            yield process

    def wait_stored(
        self,
        process: subprocess.Popen[bytes],
        slot: str,
        end_lsn: str,
        seconds: float = _STORED_SECONDS,
    ) -> float:
        """Seconds from the start of the stream to the last commit stored up to ``end_lsn``."""
        query = """
            SELECT extract(epoch FROM last_stored_at - connected_at)::float8 FROM slot
            WHERE name = %s AND checkpoint_lsn >= %s::pg_lsn
        """
        give_up_at = time.monotonic() + seconds
        with psycopg.connect(self.store.dsn("replview"), autocommit=True) as connection:
            while (row := connection.execute(query, [slot, end_lsn]).fetchone()) is None:
                log = said(self.folder / f"{slot}.log")
                if process.poll() is not None:
                    raise Failed(f"the receiver ended: {log}")
                if time.monotonic() > give_up_at:
                    raise Failed(f"{slot} waits for {end_lsn}: {self._state_of(slot)}; {log}")
                time.sleep(_LOOK_SECONDS)
        return float(row[0])

    def _state_of(self, slot: str) -> str:
        """Return the slot's state and positions in the store as text, for a failure's message."""
        return str(
            self.store_row(
                "SELECT state, problem_cause, checkpoint_lsn, server_lsn, changes_stored, now() - "
                "last_stored_at, now() - heartbeat_at FROM slot WHERE name = %s",
                slot,
            )
        )

    def stored_seconds(self, slot: str, end_lsn: str) -> float:
        """Return the seconds replview takes to store the slot's changes up to ``end_lsn``."""
        with self.receiver(slot) as process:
            return self.wait_stored(process, slot, end_lsn)


@contextmanager
def bench(**source_settings: str | int) -> Iterator[Bench]:
    """A fresh source with the table and its publication, and a fresh migrated store."""
    with (
        tempfile.TemporaryDirectory(prefix="replview-bench-") as folder,
        EmbeddedPostgres.temporary(settings={**SOURCE, **source_settings}) as source,
        EmbeddedPostgres.temporary(settings=STORE) as store,
    ):
        source.create_database("bench")
        store.create_database("replview")
        made = Bench(source, store, Path(folder))
        made.on_source(EIGHT_COLUMNS, "CREATE PUBLICATION bench FOR TABLE measured")
        migrate = module("django", "migrate", "-v", "0")
        run(migrate, made.environment, made.folder / "migrate.log")
        yield made
