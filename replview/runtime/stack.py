"""This module starts, watches and stops everything that replview needs on one machine.

``Stack`` runs its own servers (``replview demo``, ``replview watch``). With ``own_servers`` false
it uses the store and the broker that the environment names (``replview up``).
"""

import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from replview.runtime import programs
from replview.runtime.data_folder import DataFolder, FolderHolder
from replview.runtime.embedded import PortTaken, Servers, refuse_if_failed
from replview.runtime.environment import for_programs, without_given_servers
from replview.runtime.machine import (
    StackProblem,
    StartInterrupted,
    end_marked_processes,
    port_is_free,
)
from replview.runtime.narration import Narration, StatusLine
from replview.runtime.supervisor import CODE_FOLDER, ProcessWatch, Program, Supervisor

LOGIN = "demo"
_WEB_SECONDS = 60
_POLL_SECONDS = 1.0
#: ``programs.STOP_ORDER``, with groups that may be stopped in parallel.
_STOP_GROUPS = (
    ("workload", "trouble", "web", "beat"), ("workers",), ("redis", "source"), ("store",),
)  # fmt: skip
#: Programs that are not started together with replview's own processes.
_OTHER_PROGRAMS = frozenset({"store", "source", "redis", "workload"})


def run_module(
    module: str,
    argument: str,
    *,
    environment: Mapping[str, str],
    logs: Path,
    stopping: threading.Event,
) -> None:
    """Run a module to its end.

    Raises ``StackProblem`` with its last line, or ``StartInterrupted``.
    """
    log = logs / f"{module.rpartition('.')[2]}-{argument.strip('-')}.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, argument],
            cwd=CODE_FOLDER,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    while process.poll() is None:
        if stopping.wait(0.05):
            process.terminate()
            process.wait()
            raise StartInterrupted
    if process.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
        raise StackProblem(f"{module} {argument} failed: {last[0]}", f"Its log is {log}")


def page_answers(host: str, port: int) -> bool:
    """Return whether a page is served, even if it redirects to the login."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """The modules and programs that create and change the source of a demo."""

    #: ``(module, argument)`` that creates the database, run in parallel with the store's first run.
    prepare: tuple[str, str]
    #: ``(module, argument)`` that adds the database as a source, with a slot.
    register: tuple[str, str]
    #: Programs to run together with replview's own.
    programs: tuple[Program, ...]


@dataclass(kw_only=True)
class Stack:
    """The processes on one data folder. Start and stop from the main thread."""

    folder: DataFolder
    host: str = "127.0.0.1"
    port: int = 8642
    #: The demo's source, in a cluster of its own. None: there is no source yet.
    shop: Shop | None = None
    receivers: int = 1
    own_servers: bool = True
    say: Narration = field(default_factory=Narration)
    #: Set it to stop the stack, also while it starts.
    stopping: threading.Event = field(default_factory=threading.Event)

    environment: dict[str, str] = field(init=False, default_factory=dict)
    _servers: Servers | None = field(init=False, default=None)
    _supervisor: Supervisor | None = field(init=False, default=None)
    _held: bool = field(init=False, default=False)

    @property
    def url(self) -> str:
        """Return the address of the pages."""
        return f"http://{self._local_host}:{self.port}/"

    @property
    def _local_host(self) -> str:
        return "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host

    @property
    def login(self) -> tuple[str, str]:
        """Return name and password of the login, where the store is the stack's own."""
        return LOGIN, self.folder.secrets()["REPLVIEW_LOGIN_PASSWORD"]

    def start(self) -> None:
        """Start everything and return when the pages answer; stop what runs if one step fails."""
        try:
            self._hold_folder()
            if self.own_servers:
                self._start_servers()
            else:
                self.environment = self._base_environment()
                self._launch([])
            self._fill()
            self._start_replview()
        except BaseException:
            self.stop()
            raise

    def run(self, status: StatusLine | None = None) -> None:
        """Watch the processes and report changes until asked to stop."""
        assert self._supervisor is not None
        watch = ProcessWatch(self._supervisor)
        while not self.stopping.wait(_POLL_SECONDS):
            if not self._supervisor.is_alive():
                raise StackProblem(
                    "supervisord ended, and the processes with it",
                    f"See {self.folder.logs / 'supervisord.log'}",
                )
            # supervisord may be too busy to answer; the next round asks again.
            with suppress(OSError):
                for line in watch.changes():
                    self.say.line(line)
            if status:
                self.say.status(status.text())

    def stop(self) -> None:
        """Stop everything in order; nothing is left running. May be called again."""
        if not self._held:
            return
        if self._supervisor:
            with self.say.step("stopping"):
                orderly = self._supervisor.is_alive()
                for kinds in _STOP_GROUPS:
                    levels = [programs.priority(kind) for kind in kinds]
                    group_names = [
                        p.name for p in self._supervisor.programs if p.priority in levels
                    ]
                    # supervisord may be ending, and then stops programs by priority itself.
                    with suppress(OSError):
                        self._supervisor.stop(group_names)
                self._supervisor.end()
                if not orderly:
                    self._end_leftovers(None)
        self.folder.release()
        self._held = False

    def _hold_folder(self) -> None:
        """Lock the data folder and end what a killed run left behind."""
        self.folder.create()
        former_holder = self.folder.acquire(self.url)
        self._held = True
        if former_holder:
            self._clean_up_after(former_holder)
        if not port_is_free(self.port, self.host):
            is_reserved = self.port < 1024 and os.geteuid() != 0
            reason = "is reserved for root" if is_reserved else "is in use by another program"
            free_port = 8642 if is_reserved else self.port + 1
            raise StackProblem(
                f"port {self.port} on {self.host} {reason}",
                f"Choose a free one with --port, for example --port {free_port}",
            )

    def _clean_up_after(self, former_holder: FolderHolder) -> None:
        pid = None
        with suppress(OSError, ValueError):
            pid = int((self.folder.run / "supervisord.pid").read_text())
        self.folder.remove_env()
        count = self._end_leftovers(pid)
        self.say.line(
            f"  process {former_holder.pid} did not stop in order the last time: "
            f"cleaned up, {count or 'no'} process{'es' if count != 1 else ''} left over"
        )

    def _end_leftovers(self, supervisor_pid: int | None) -> int:
        """End processes without a supervisord, readers before servers; return their number."""
        count = end_marked_processes(self.folder.path, supervisor_pid)
        return count + (Servers(self.folder).end_leftovers() if self.own_servers else 0)

    def _start_servers(self) -> None:
        self._servers = Servers(self.folder, source=self.shop is not None)
        first = not self._servers.store.data_dir.exists()
        with self.say.step("preparing the database clusters" if first else "looking at the data"):
            self._servers.prepare()
        server_names = "source and store" if self.shop else "the store"
        with self.say.step(f"starting PostgreSQL ({server_names}) and Redis"):
            for _ in range(5):
                try:
                    self.environment = {**self._base_environment(), **self._servers.environment()}
                    supervisor = self._launch(self._servers.programs())
                    supervisor.start(program.name for program in self._servers.programs())
                    return self._servers.wait_until_ready(supervisor, self.stopping)
                except PortTaken:
                    if self._supervisor:
                        self._supervisor.end()
                    self._servers.prepare()
        raise StackProblem("no TCP port stays free for long enough to start a server on it")

    def _base_environment(self) -> dict[str, str]:
        """Return the environment of the processes; with our own servers also the kept secrets."""
        variables = without_given_servers() if self.own_servers else for_programs()
        variables |= {"PYTHONUNBUFFERED": "1", "REPLVIEW_DATA": str(self.folder.path)}
        variables["DJANGO_SETTINGS_MODULE"] = "replview.settings"
        if self.own_servers:
            variables["REPLVIEW_SECRET_KEY"] = self.folder.secrets()["REPLVIEW_SECRET_KEY"]
            variables.setdefault("REPLVIEW_ALLOWED_HOSTS", "127.0.0.1,localhost")
        if self.shop:
            variables["REPLVIEW_DEMO"] = "1"
        return variables

    def _launch(self, servers: list[Program]) -> Supervisor:
        """Start supervisord, which knows every program from the start."""
        own_programs = [
            *programs.workers(self.receivers),
            programs.beat(self.folder.run),
            programs.web(self.host, self.port),
        ]
        own_programs += self.shop.programs if self.shop else ()
        self._supervisor = Supervisor(self.folder, [*servers, *own_programs], self.environment)
        self._supervisor.launch()
        return self._supervisor

    def _fill(self) -> None:
        """Create schema and login of the store, and in parallel the shop; then the shop's slot."""
        environment = dict(self.environment)
        if self.own_servers:
            environment["REPLVIEW_LOGIN"], environment["REPLVIEW_LOGIN_PASSWORD"] = self.login
        shop, logs, stopping = self.shop, self.folder.logs, self.stopping
        run = partial(run_module, environment=environment, logs=logs, stopping=stopping)
        with self.say.step("preparing the store" + (" and the shop" if shop else "")):
            with ThreadPoolExecutor() as pool:
                store = pool.submit(run, "replview.runtime.first_run", "store")
                seeds = pool.submit(run, *shop.prepare) if shop else None
            store.result()
            if seeds:
                seeds.result()
        if shop:
            with self.say.step("creating publication and slot on the shop"):
                run(*shop.register)

    def _start_replview(self) -> None:
        """Start replview's processes, and the shop's workload last, when pages can show it."""
        assert self._supervisor is not None
        names = [p.name for p in self._supervisor.programs if p.name not in _OTHER_PROGRAMS]
        with self.say.step("starting workers, scheduler and web server"):
            self._supervisor.start(names)
            deadline = time.monotonic() + _WEB_SECONDS
            while not page_answers(self._local_host, self.port):
                refuse_if_failed(self._supervisor, ["web"], deadline)
                if self.stopping.wait(0.1):
                    raise StartInterrupted
        if any(p.name == "workload" for p in self._supervisor.programs):
            self._supervisor.start(["workload"])
        if self.own_servers:
            shared = {k: v for k, v in self.environment.items() if k.startswith("REPLVIEW_")}
            self.folder.write_env({**shared, "REPLVIEW_URL": self.url})
