"""This module defines the command lines of replview's own processes."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from replview.runtime.data_folder import DataFolder
from replview.runtime.environment import for_programs, is_on
from replview.runtime.supervisor import CODE_FOLDER, Program
from replview.store.receiver_workers import SLOTS_PER_WORKER

#: The order in which groups of processes are stopped: sources after their readers, because a
#: server's fast shutdown waits for its walsenders; the store last.
STOP_ORDER = ("workload", "trouble", "web", "beat", "workers", "redis", "source", "store")

#: Limits of the web server: browsers send short headers and short WebSocket messages.
WEB_LIMITS = (
    "--h11-max-incomplete-event-size", "32768", "--ws-max-size", "131072",
    "--limit-concurrency", "1000", "--timeout-keep-alive", "20", "--no-server-header",
)  # fmt: skip

_PRIORITIES = {name: 10 * place for place, name in enumerate(reversed(STOP_ORDER), start=1)}
#: Kinds of processes, in the order in which ``up`` lists them.
KINDS = ("web", "receivers", "tasks", "beat")


def priority(kind: str) -> int:
    """Return the priority for supervisord: a low one starts first and stops last."""
    return _PRIORITIES[kind]


def workers(receivers: int = 1) -> list[Program]:
    """Return the workers for slots and one for all other tasks.

    Each worker is a process, and so has its own GIL.
    """
    names = ["receivers"] if receivers == 1 else [f"receivers{n + 1}" for n in range(receivers)]
    return [*(receivers_worker(name) for name in names), tasks_worker()]


def receivers_worker(name: str = "receivers") -> Program:
    """Return a worker for slots, which takes a fixed number of them at most.

    Several workers on a host need different names.
    """
    concurrency = f"--concurrency={SLOTS_PER_WORKER}"
    options = ("-Q", "receivers", "--pool=threads", concurrency, "--disable-prefetch")
    return _worker(name, *options)


def tasks_worker(name: str = "tasks") -> Program:
    """Return the worker for all other tasks: sampling, alerts, exports, cleaning up."""
    return _worker(name, "-Q", "default", "--pool=threads", "--concurrency=8")


def beat(run_folder: Path) -> Program:
    """Return Celery beat, which proposes receivers and samples slots."""
    schedule = ["--schedule", str(run_folder / "beat-schedule"), "--pidfile="]
    argv = [sys.executable, "-m", "celery", "-q", "-A", "replview", "beat", *schedule]
    return Program(name="beat", argv=argv, priority=priority("beat"))


def web(host: str, port: int) -> Program:
    """Return the ASGI server, which closes open sockets at once when it stops.

    Browsers reconnect by themselves.
    """
    argv = [
        sys.executable, "-m", "uvicorn", "replview.asgi:application",
        "--host", host, "--port", str(port),
        "--lifespan", "off", "--no-access-log", "--timeout-graceful-shutdown", "2",
        *WEB_LIMITS,
    ]  # fmt: skip
    # Without a declared proxy, any client at 127.0.0.1 could claim any address by a header.
    if not (is_on("REPLVIEW_HTTPS") or os.environ.get("FORWARDED_ALLOW_IPS")):
        argv.append("--no-proxy-headers")
    return Program(name="web", argv=argv, priority=priority("web"))


def _worker(name: str, *options: str) -> Program:
    argv = [
        sys.executable, "-m", "celery", "-q", "-A", "replview", "worker", *options,
        "--without-gossip", "--without-mingle", "-n", f"{name}@%h",
    ]  # fmt: skip
    return Program(name=name, argv=argv, priority=priority("workers"))


def program(kind: str, *, folder: DataFolder, host: str, port: int, name: str = "") -> Program:
    """Return the process of this kind for ``up --only``.

    ``name`` distinguishes workers of one kind on one host.
    """
    if kind == "web":
        return web(host, port)
    if kind == "beat":
        return beat(folder.run)
    worker = {"receivers": receivers_worker, "tasks": tasks_worker}[kind]
    return worker(name or kind)


def become(program: Program, folder: DataFolder) -> NoReturn:
    """Replace this process by the program, for ``up --only``.

    Signals, output and exit status are then the program's own, and whatever started the command
    (systemd, a container) restarts it.
    """
    environment = {
        **for_programs(),
        "PYTHONUNBUFFERED": "1",
        "REPLVIEW_DATA": str(folder.path),
        "DJANGO_SETTINGS_MODULE": "replview.settings",
    }
    os.chdir(CODE_FOLDER)
    os.execve(program.argv[0], list(program.argv), environment)
