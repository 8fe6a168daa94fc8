"""This module runs an embedded Redis server: broker and channel layer of a stack on one machine.

It listens on TCP on 127.0.0.1 with a password. Nothing is saved: Redis only has wake-ups, and tasks
that beat sends again within seconds. Everything lasting is in the store.
"""

import os
import secrets
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from replview.runtime.machine import StackProblem, end_process, free_port, is_running
from replview.runtime.servers.server_programs import redis_server

_START_SECONDS = 30


class EmbeddedRedis:
    """A server with its files in one folder; also a context manager that starts and stops it."""

    def __init__(self, data_dir: Path | str, *, port: int | None = None) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._configuration = self.data_dir / "redis.conf"
        self._log, self._pid_file = self.data_dir / "redis.log", self.data_dir / "redis.pid"
        self.port = port
        self.password = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary_folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def temporary(cls) -> "EmbeddedRedis":
        """Return a server for tests, in a folder that is removed at the end of the context."""
        folder = tempfile.TemporaryDirectory(prefix="replview-redis-")
        server = cls(folder.name)
        server._temporary_folder = folder
        return server

    def __enter__(self) -> "EmbeddedRedis":
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()
        if self._temporary_folder:
            self._temporary_folder.cleanup()

    def prepare(self) -> "EmbeddedRedis":
        """Choose the port and write the configuration, the only file with the password."""
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.end_leftover()
        self.port = free_port(self.port)
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            "daemonize no",
            'save ""',
            "appendonly no",
            "tcp-backlog 128",
            f'dir "{self.data_dir}"',
            f'pidfile "{self._pid_file}"',
        ]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(self._configuration, flags, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")
        return self

    def argv(self) -> list[str]:
        """Return the command that runs the prepared server in the foreground."""
        return [str(redis_server()), str(self._configuration)]

    def start(self) -> None:
        """Start the server as our child, in its own session, and return when it answers."""
        # The port may be taken after we found it free.
        for _ in range(3):
            if self._started():
                return
        raise StackProblem("the embedded Redis did not start", f"See {self._log}")

    def _started(self) -> bool:
        self.prepare()
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self.argv(), stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                return False
            time.sleep(0.02)
        return True

    def stop(self) -> None:
        """Stop the server that ``start`` started."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def url(self, database: int = 0) -> str:
        """Return the address of the server, with the password in it."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"

    def is_ready(self) -> bool:
        """Return whether the server answers a PING now."""
        # By default the client retries for seconds; our callers repeat the call anyway.
        no_retry = Retry(NoBackoff(), 0)
        client = redis.Redis.from_url(self.url(), socket_timeout=2, retry=no_retry)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def end_leftover(self) -> bool:
        """Stop a server of this folder that a killed stack left; return whether there was one."""
        with suppress(OSError, ValueError):
            pid = int(self._pid_file.read_text())
            # Redis replaces its arguments by its address, so only the program can be checked.
            if is_running(pid, program="redis-server"):
                end_process(pid)
                return True
        return False
