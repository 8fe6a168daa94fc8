"""Measures the server's time for one request: routing, middleware, session, queries, template.

Neither the network nor the browser is measured.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client


@dataclass(slots=True)
class Cost:
    """The time and the queries of one request or one read."""

    ms: float
    database_ms: float
    queries: int
    #: The processors' time of this process and of its session's server process, which neighbours
    #: on the machine change little; None where the system does not tell.
    cpu_ms: float | None = None
    #: The longest single query, and how long it took.
    slowest_ms: float = 0.0
    slowest: str = ""
    address: str = ""


@dataclass(slots=True)
class Measured:
    """The costs of all requests of a kind."""

    costs: list[Cost] = field(default_factory=list)
    #: Why it could not be measured; empty: it could.
    problem: str = ""

    def at(self, share: float, of: Callable[[Cost], float] = lambda cost: cost.ms) -> float:
        """The value below which ``share`` of them lie."""
        ordered = sorted(of(cost) for cost in self.costs)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    @property
    def queries(self) -> int:
        """The most that one of them made."""
        return max(cost.queries for cost in self.costs)

    @property
    def worst(self) -> Cost:
        """The slowest one."""
        return max(self.costs, key=lambda cost: cost.ms)


class Refused(Exception):
    """A page answered something else than a page."""


class Asker:
    """A signed-in client that notes what each answer cost."""

    def __init__(self) -> None:
        user, _ = User.objects.get_or_create(username="bench", defaults={"is_superuser": True})
        self._client = Client(headers={"host": "localhost"})
        self._client.force_login(user)

    def get(self, address: str) -> str:
        """A page's text; raises ``Refused``."""
        try:
            answer = self._client.get(address)
        except Exception as error:
            raise Refused(f"{address}: {type(error).__name__}: {error}") from error
        if answer.status_code != 200:
            raise Refused(f"{address} answered {answer.status_code}")
        return str(answer.content.decode()) if not answer.streaming else ""

    def measure(self, addresses: Iterable[str]) -> Measured:
        """Each address once; the first is asked twice, and its first answer, which fills the
        process's caches, is not counted.
        """
        wanted = list(addresses)
        measured = Measured()
        try:
            for number, address in enumerate(wanted[:1] + wanted):
                cost = read_cost(lambda address=address: self.get(address))  # type: ignore[misc]
                cost.address = address
                if number:
                    measured.costs.append(cost)
        except Refused as problem:
            measured.problem = str(problem)
        if not measured.costs and not measured.problem:
            measured.problem = "nothing to ask for"
        return measured


def read_cost(read: Callable[[], Any]) -> Cost:
    """Return the cost of a call: its time in all and in the database, and its queries."""
    cost = Cost(0.0, 0.0, 0)
    connection.ensure_connection()
    session = connection.connection
    with _queries_into(cost):
        ours, servers = time.process_time(), server_cpu_seconds()
        started = time.perf_counter()
        read()
        cost.ms = (time.perf_counter() - started) * 1000
        then = server_cpu_seconds()
    if servers is not None and then is not None and connection.connection is session:
        cost.cpu_ms = (time.process_time() - ours + then - servers) * 1000
    return cost


def server_cpu_seconds() -> float | None:
    """Return the processor seconds of our session's server process; None if unknown.

    Source: the kernel's sched-stats.
    """
    session = connection.connection
    if session is None:
        return None
    try:
        with open(f"/proc/{session.info.backend_pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9
    except OSError:
        return None


@contextmanager
def _queries_into(cost: Cost) -> Iterator[None]:
    """Count and time every query of this process meanwhile."""

    def timed(execute: Any, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        started = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            took_ms = (time.perf_counter() - started) * 1000
            cost.queries += 1
            cost.database_ms += took_ms
            if took_ms > cost.slowest_ms:
                cost.slowest_ms, cost.slowest = took_ms, " ".join(str(sql).split())

    with connection.execute_wrapper(timed):
        yield
