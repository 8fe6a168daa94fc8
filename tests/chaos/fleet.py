"""The receivers under test: two workers that can take the slot, each on links of its own.

Either real Celery workers with beat on a real Redis, or bare receiver processes, which start
faster. A worker that was killed is started again, as a process manager would.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.benchmarks.processes import said
from tests.chaos.proxy import Link, Proxies
from tests.chaos.servers import ROOT, Servers

_END_SECONDS = 12
_QUIET = ("--without-gossip", "--without-mingle")


@dataclass
class Worker:
    """One process that can read the slot, or serves those that do."""

    name: str
    argv: Sequence[str]
    environment: dict[str, str]
    log: str
    source_link: Link | None = None
    store_link: Link | None = None
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it unless it runs, in a process group of its own."""
        if self.process is not None and self.process.poll() is None:
            return
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of it."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Ask it to end, then make it."""
        if self.process is None:
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()


class Fleet:
    """All processes of replview in a run; a context manager that ends them."""

    def __init__(self, servers: Servers, proxies: Proxies, *, slot_id: int, celery: bool) -> None:
        self._servers = servers
        self._proxies = proxies
        self._slot_id = slot_id
        self.celery = celery
        self.receivers = [self._receiver("receivers-a"), self._receiver("receivers-b")]
        self._others = self._beat() if celery else []
        self._intruders: list[Worker] = []

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in [*self._others, *self._intruders, *self.receivers]:
            worker.end() if error is None else worker.kill()

    def start(self) -> None:
        """Start whatever does not run."""
        for worker in [*self.receivers, *self._others]:
            worker.start()

    def ended_by_themselves(self) -> list[str]:
        """Receivers that nobody ended and that run no more, with what they said last."""
        return [
            f"{worker.name}: {said(Path(worker.log))}"
            for worker in self.receivers
            if worker.process is not None and worker.process.poll() is not None
        ]

    def holder(self, owner: str) -> Worker:
        """The worker that has the lease."""
        name = owner.split("@")[0]
        return next(worker for worker in self.receivers if worker.name == name)

    def other(self, holder: Worker) -> Worker:
        """The one that would take over."""
        return next(worker for worker in self.receivers if worker is not holder)

    def intruder(self) -> Worker:
        """A further process that wants the same slot."""
        worker = self._bare("intruder")
        self._intruders.append(worker)
        return worker

    def pause_before_restart(self) -> None:
        """Wait a second, as a process manager does before it restarts a process."""
        time.sleep(1.0)

    def _receiver(self, name: str) -> Worker:
        return self._celery_receiver(name) if self.celery else self._bare(name)

    def _linked(self, name: str, argv: Sequence[str]) -> Worker:
        """A process that reaches both servers through links of its own."""
        source_link = self._proxies.link(lambda: self._servers.source.port)
        store_link = self._proxies.link(lambda: self._servers.store.port)
        environment = self._servers.environment(
            store_port=store_link.port, source_port=source_link.port
        )
        log = str(self._servers.folder / f"{name}.log")
        return Worker(name, argv, environment, log, source_link, store_link)

    def _bare(self, name: str) -> Worker:
        module = [sys.executable, "-m", "tests.chaos.receiver_process"]
        return self._linked(name, [*module, str(self._slot_id), f"{name}@chaos"])

    def _celery_receiver(self, name: str) -> Worker:
        options = "-Q receivers --pool=threads --concurrency=4 --disable-prefetch"
        return self._linked(
            name, _celery("worker", *options.split(), *_QUIET, "-n", f"{name}@chaos")
        )

    def _beat(self) -> list[Worker]:
        """Beat, and the worker for what it schedules; both reach the servers directly."""
        servers = self._servers
        environment = servers.environment(
            store_port=servers.store.port, source_port=servers.source.port
        )
        options = "-Q default --pool=threads --concurrency=2"
        schedule = str(servers.folder / "beat-schedule")
        argvs = {
            "tasks": _celery("worker", *options.split(), *_QUIET, "-n", "tasks@chaos"),
            "beat": _celery("beat", "-s", schedule, "--pidfile="),
        }
        return [
            Worker(name, argv, environment, str(servers.folder / f"{name}.log"))
            for name, argv in argvs.items()
        ]


def _celery(command: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "replview", command, *arguments]
