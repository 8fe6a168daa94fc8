"""An instance of replview whose slots nobody receives: a store, Redis, beat, the tasks' worker and
the web server, with the command lines of ``replview up``. What runs is what samples.
"""

import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from replview.runtime import programs
from replview.runtime.machine import free_port
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.redis import EmbeddedRedis
from tests.benchmarks.bench_servers import STORE
from tests.benchmarks.processes import Failed, module, run, running, said
from tests.benchmarks.stack import LOGIN, answers, sign_in

_UP_SECONDS = 60


@dataclass
class Instance:
    """A migrated store, its environment, and what has been started on it."""

    store: EmbeddedPostgres
    folder: Path
    #: The environment variables by which every process finds the instance.
    environment: dict[str, str]
    up: ExitStack
    #: By program name: ``tasks``, ``beat``, ``web``.
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = 0
    #: A signed-in session's cookies, as a browser sends them.
    cookie: str = ""

    @property
    def origin(self) -> str:
        """The site, as a browser names it."""
        return f"http://127.0.0.1:{self.port}"

    def client(self, name: str, *arguments: str) -> str:
        """Run a benchmark module to its end on this instance and return its standard output."""
        log = self.folder / f"{name.rpartition('.')[2]}.log"
        return run(module(name, *arguments), self.environment, log)

    def rows(self, query: str, *parameters: object) -> list[tuple[object, ...]]:
        """Return the rows that a query on the store gives."""
        with psycopg.connect(self.store.dsn("replview"), autocommit=True) as connection:
            return connection.execute(query, parameters).fetchall()

    def start_sampling(self) -> None:
        """Beat, and the worker of all tasks but the receivers'."""
        redis = self.up.enter_context(EmbeddedRedis.temporary())
        self.environment["REPLVIEW_REDIS_URL"] = redis.url()
        [tasks] = [program for program in programs.workers() if program.name == "tasks"]
        self._start(tasks, programs.beat(self.folder))

    def start_web(self) -> None:
        """The web server, and a session signed in to it. Redis runs already."""
        password = secrets.token_urlsafe(12)
        login = {"REPLVIEW_LOGIN": LOGIN, "REPLVIEW_LOGIN_PASSWORD": password}
        first = module("replview.runtime.first_run", "store")
        run(first, self.environment | login, self.folder / "login.log")
        self.port = free_port()
        self._start(programs.web("127.0.0.1", self.port))
        self.wait_for(lambda: answers(self.port), "web", "does not answer")
        self.cookie = sign_in(self.port, password)

    def cpu_seconds(self, name: str) -> float:
        """Return the processor seconds a program and its live descendants have used so far."""
        process = psutil.Process(self.processes[name].pid)
        times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
        return float(sum(time.user + time.system for time in times))

    def wait_for(
        self, there: Callable[[], object], program: str, what: str, seconds: float = _UP_SECONDS
    ) -> None:
        """Wait until ``there()`` is true. Raises ``Failed`` with the end of the program's log."""
        give_up_at = time.monotonic() + seconds
        while not there():
            if time.monotonic() > give_up_at:
                log = said(self.folder / f"{program}.log")
                raise Failed(f"{program} {what} after {seconds:.0f} s: {log}")
            time.sleep(0.1)

    def _start(self, *wanted: programs.Program) -> None:
        for program in wanted:
            log = self.folder / f"{program.name}.log"
            self.processes[program.name] = self.up.enter_context(
                running(list(program.argv), self.environment, log)
            )


@contextmanager
def instance(**settings: str | int) -> Iterator[Instance]:
    """A fresh migrated store; nothing runs on it yet."""
    with (
        tempfile.TemporaryDirectory(prefix="replview-bench-") as folder,
        EmbeddedPostgres.temporary(settings=STORE | settings) as store,
        ExitStack() as up,
    ):
        store.create_database("replview")
        environment = {
            **os.environ,
            "REPLVIEW_STORE_URL": store.dsn("replview"),
            "REPLVIEW_DATA": folder,
            "REPLVIEW_SECRET_KEY": secrets.token_urlsafe(24),
            "REPLVIEW_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "replview.settings",
        }
        made = Instance(store, Path(folder), environment, up)
        made.client("django", "migrate", "-v", "0")
        yield made


def server_cpu_seconds(server: EmbeddedPostgres) -> float:
    """Return the processor seconds of an embedded server: its live and its ended processes."""
    postmaster = int((server.data_dir.resolve() / "postmaster.pid").read_text().splitlines()[0])
    process = psutil.Process(postmaster)
    used = process.cpu_times()
    total = used.user + used.system + used.children_user + used.children_system
    for child in process.children():
        with suppress(psutil.NoSuchProcess):  # it has ended since, and is the postmaster's now
            times = child.cpu_times()
            total += times.user + times.system
    return float(total)
