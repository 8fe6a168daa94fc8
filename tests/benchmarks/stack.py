"""replview's own processes on a bench's servers, started with the command lines of ``replview up``.

The receivers' worker, the worker of all other tasks, beat, the web server, and an embedded Redis.
"""

import http.client
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import httpx

from replview.runtime import programs
from replview.runtime.machine import free_port
from replview.runtime.servers.redis import EmbeddedRedis
from tests.benchmarks.bench_servers import Bench
from tests.benchmarks.processes import Failed, module, run, running, said

LOGIN = "bench"
_UP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Stack:
    """A running replview with one slot, and a signed-in session."""

    servers: Bench
    port: int
    slot_id: int
    #: The session's cookies, as a browser sends them.
    cookie: str
    #: By program name: ``receivers``, ``tasks``, ``beat``, ``web``.
    processes: dict[str, subprocess.Popen[bytes]]
    #: Processes and files entered here end with the stack.
    up: ExitStack

    @property
    def origin(self) -> str:
        """The site, as a browser names it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket_url(self) -> str:
        """The live socket of the slot."""
        return f"ws://127.0.0.1:{self.port}/ws/live/{self.slot_id}/"

    def stored_transactions(self) -> int:
        """Transactions of the slot that the store holds now."""
        row = self.servers.store_row(
            "SELECT transactions_stored FROM slot WHERE id = %s", self.slot_id
        )
        return int(str(row[0])) if row else 0


@contextmanager
def sampling(servers: Bench) -> Iterator[None]:
    """Everything that goes on beside receivers: samples, roll-ups, alerts, budgets."""
    with EmbeddedRedis.temporary() as redis, ExitStack() as up:
        environment = servers.environment | {"REPLVIEW_REDIS_URL": redis.url()}
        tasks = [program for program in programs.workers() if program.name == "tasks"]
        for program in [*tasks, programs.beat(servers.folder)]:
            log = servers.folder / f"{program.name}.log"
            up.enter_context(running(list(program.argv), environment, log))
        yield


@contextmanager
def stack(servers: Bench, slot: str) -> Iterator[Stack]:
    """Everything up and streaming the slot, which is on the source already."""
    password = secrets.token_urlsafe(12)
    port = free_port()
    environment = servers.environment
    with ExitStack() as up:
        redis = up.enter_context(EmbeddedRedis.temporary())
        environment |= {
            "REPLVIEW_REDIS_URL": redis.url(),
            "REPLVIEW_LOGIN": LOGIN,
            "REPLVIEW_LOGIN_PASSWORD": password,
        }
        login = module("replview.runtime.first_run", "store")
        run(login, environment, servers.folder / "login.log")
        register = module("tests.benchmarks.register_slot", slot)
        slot_id = int(run(register, environment, servers.folder / "register.log").split()[-1])
        ours = [programs.beat(servers.folder), programs.web("127.0.0.1", port)]
        processes = {}
        for program in [*programs.workers(), *ours]:
            log = servers.folder / f"{program.name}.log"
            processes[program.name] = up.enter_context(
                running(list(program.argv), environment, log)
            )
        _wait(lambda: _streams(servers, slot_id), servers, "receivers")
        _wait(lambda: answers(port), servers, "web")
        yield Stack(servers, port, slot_id, sign_in(port, password), processes, up)


def _streams(servers: Bench, slot_id: int) -> bool:
    row = servers.store_row("SELECT state FROM slot WHERE id = %s", slot_id)
    return row is not None and row[0] == "streaming"


def answers(port: int) -> bool:
    """Return True if the web server's login page answers on this port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/login/")
        return connection.getresponse().status == 200
    return False


def _wait(there: Callable[[], bool], servers: Bench, name: str) -> None:
    """Wait until ``there()`` is true. Raises ``Failed`` with the end of the process's log."""
    give_up_at = time.monotonic() + _UP_SECONDS
    while not there():
        if time.monotonic() > give_up_at:
            raise Failed(f"{name} is not up after {_UP_SECONDS} s: "
                         f"{said(servers.folder / f'{name}.log')}")  # fmt: skip
        time.sleep(0.1)


def sign_in(port: int, password: str) -> str:
    """Sign in as a browser does; the cookies it then sends."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        client.get("/login/").raise_for_status()
        form = {
            "username": LOGIN,
            "password": password,
            "csrfmiddlewaretoken": client.cookies["csrftoken"],
        }
        answer = client.post("/login/", data=form)
        if answer.status_code != 302:
            raise Failed(f"the login answered {answer.status_code}")
        return "; ".join(f"{name}={value}" for name, value in client.cookies.items())
