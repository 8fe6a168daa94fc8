"""This module runs an embedded PostgreSQL server: initdb, start, stop, and how to connect.

It listens on a free TCP port of 127.0.0.1 with SCRAM, and has no Unix socket. Its password and last
port are kept in files beside the data folder, so that the next start is the same server. Under root
it runs as an unprivileged user (``server_user``).

Sources: PostgreSQL documentation, "Creating a Database Cluster", "pg_ctl".
"""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from replview.runtime.machine import TAKEN, StackProblem, free_port
from replview.runtime.servers import cluster, postmaster
from replview.runtime.servers.server_user import reachable_data, server_user

#: Settings of every embedded server; ``settings`` override them, ``ALTER SYSTEM`` both.
BASE_SETTINGS: Mapping[str, str | int] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "wal_level": "logical",
    "max_wal_senders": 20,
    "max_replication_slots": 20,
    "max_prepared_transactions": 20,
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}

_START_SECONDS = 300
#: Messages in the log after which another try may succeed: a killed postmaster is not yet reaped,
#: its sessions are still ending, or the port was just taken.
_TRANSIENT_MESSAGES = ('lock file "postmaster.pid" already exists', "shared memory block", *TAKEN)


class EmbeddedPostgres:
    """A cluster in one data folder; also a context manager that starts and stops it.

    ``port`` is a preference: a busy one is replaced at the start. ``fast`` (no fsync) is for tests.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        version: int = 18,
        settings: Mapping[str, str | int] | None = None,
        encoding: str = "UTF8",
        port: int | None = None,
        fast: bool = False,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._password_file = self.data_dir.with_name(f"{self.data_dir.name}.password")
        self._port_file = self.data_dir.with_name(f"{self.data_dir.name}.port")
        self.version = version
        self.user = "postgres"
        self.encoding = encoding
        self.settings = {**BASE_SETTINGS, **({"fsync": "off"} if fast else {}), **(settings or {})}
        self.port = port or self._kept_port()
        self._real_dir = self.data_dir
        self._temporary_folder: Path | None = None

    @classmethod
    def temporary(
        cls,
        *,
        version: int = 18,
        settings: Mapping[str, str | int] | None = None,
        encoding: str = "UTF8",
    ) -> "EmbeddedPostgres":
        """Return a server for tests, in a folder that is removed at the end of the context."""
        folder = Path(tempfile.mkdtemp(prefix="replview-pg-"))
        if server_user():
            folder.chmod(0o711)
        server = cls(
            folder / "data", version=version, settings=settings, encoding=encoding, fast=True
        )
        server._temporary_folder = folder
        return server

    def __enter__(self) -> "EmbeddedPostgres":
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._temporary_folder:
            self.remove()
        else:
            self.stop()

    def prepare(self) -> "EmbeddedPostgres":
        """Create the cluster if necessary, choose a port, configure; no server may run in it."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        self._real_dir = reachable_data(self.data_dir)
        if not (self._real_dir / "PG_VERSION").exists():
            cluster.make_cluster(self._real_dir, version=self.version, user=self.user,
                         password=self.password, encoding=self.encoding)  # fmt: skip
        cluster.check_version(self._real_dir, self.version)
        postmaster.forget_reused_pid(self._real_dir)
        port = free_port(self.port)
        cluster.write_configuration(self._real_dir, {**self.settings, "port": port})
        self._port_file.write_text(str(port))
        self.port = port
        return self

    def argv(self) -> list[str]:
        """Return the command for a process manager.

        It must run as ``server_user()`` and removes our variables from the environment.
        """
        variables = [f"{name}={value}" for name, value in cluster.CLEAN_ENVIRONMENT.items()]
        command = [cluster.program(self.version, "postgres"), "-D", str(self._real_dir)]
        return ["/usr/bin/env", "-i", *variables, *command]

    def start(self) -> None:
        """Start the server in the background, and return when it accepts connections."""
        # A killed process may have left the server running.
        self.stop()
        for attempt in range(5):
            self.prepare()
            log = self._real_dir / "replview.log"
            command = ["pg_ctl", "start", "-D", str(self._real_dir), "-l", str(log), "-w"]
            try:
                cluster.run_program(self.version, *command, "-t", str(_START_SECONDS))
                return
            except StackProblem as problem:
                lines = _last_lines(log)
                if attempt == 4 or not any(message in lines for message in _TRANSIENT_MESSAGES):
                    raise StackProblem(problem.cause, f"Its log {log} ends: {lines}") from None
                time.sleep(0.5)

    def stop(self, *, mode: str = "fast", timeout_seconds: int = 60) -> bool:
        """Stop the server (smart, fast, immediate), and return whether it ran.

        A fast stop waits for the walsenders.
        """
        self._real_dir = self.data_dir.resolve()
        postmaster.forget_reused_pid(self._real_dir)
        if postmaster.postmaster_pid(self._real_dir) is None:
            return False
        command = ["pg_ctl", "stop", "-D", str(self._real_dir), "-m", mode, "-w"]
        cluster.run_program(self.version, *command, "-t", str(timeout_seconds))
        return True

    def remove(self) -> None:
        """Stop the server at once and delete its data."""
        self.stop(mode="immediate")
        shutil.rmtree(self._real_dir, ignore_errors=True)
        for path in (self.data_dir, self._password_file, self._port_file):
            with suppress(OSError):
                path.unlink()
        if self._temporary_folder:
            shutil.rmtree(self._temporary_folder, ignore_errors=True)

    def dsn(self, dbname: str = "postgres", user: str | None = None, password: str = "") -> str:
        """Return a libpq URL with a password; by default the superuser's."""
        secret = password or self.password
        return f"postgresql://{user or self.user}:{quote(secret)}@127.0.0.1:{self.port}/{dbname}"

    @property
    def password(self) -> str:
        """Return the superuser's password, created once and kept beside the data folder."""
        with suppress(FileNotFoundError):
            return self._password_file.read_text().strip()
        password = secrets.token_urlsafe(24)
        descriptor = os.open(self._password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(password)
        return password

    def is_ready(self) -> bool:
        """Return whether the server accepts connections."""
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self, name: str) -> None:
        """Create the database if it does not exist."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            exists_query = "SELECT FROM pg_database WHERE datname = %s"
            if connection.execute(exists_query, [name]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def _kept_port(self) -> int | None:
        """Return the port of the last start, so that stored addresses remain valid."""
        with suppress(OSError, ValueError):
            return int(self._port_file.read_text())
        return None


def _last_lines(log: Path) -> str:
    with suppress(OSError):
        return " | ".join(log.read_text(errors="replace").splitlines()[-6:])
    return "(no log)"
