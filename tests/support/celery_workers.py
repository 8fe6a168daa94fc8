"""Real Celery workers on the test's store and broker."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.db import connection

from replview.runtime.servers.redis import EmbeddedRedis


@dataclass
class Workers:
    """Celery processes of this test, on its store and broker."""

    environment: dict[str, str]
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one Celery process in a process group of its own."""
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "replview", *arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = process
        return process

    def receivers(self, name: str) -> subprocess.Popen[bytes]:
        """A worker for receivers, as ``replview up`` starts it."""
        options = "-Q receivers --pool=threads --concurrency=4 --disable-prefetch"
        quiet = "--without-gossip --without-mingle"
        node = f"receivers-{name}@%h"
        return self.start(name, "worker", *options.split(), *quiet.split(), "-n", node)

    def beat(self) -> None:
        """Beat, and the worker for what it schedules."""
        self.start("beat", "beat", "-s", str(self.folder / "schedule"), "--pidfile=")
        options = "-Q default --pool=threads --concurrency=2 --without-gossip --without-mingle"
        self.start("tasks", "worker", *options.split(), "-n", "tasks@%h")

    def end(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def workers(transactional_db, redis_server: EmbeddedRedis, tmp_path: Path) -> Iterator[Workers]:
    """Processes that share the test's store."""
    at = connection.settings_dict
    store = f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"
    made = Workers(
        {
            **os.environ,
            "REPLVIEW_STORE_URL": store,
            "REPLVIEW_REDIS_URL": redis_server.url(),
            "REPLVIEW_DATA": str(tmp_path),
        },
        tmp_path,
    )
    yield made
    made.end()
