"""This module runs the sessions, each in a thread, at the given rate and across server restarts."""

import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from replview.demo.workload import (
    catalogue,
    ddl,
    janitor,
    large_transactions,
    orders,
    tills,
    two_phase,
    visitors,
)
from replview.demo.workload.material import Material, invent
from replview.demo.workload.scenarios import SCENARIOS, Scenario
from replview.demo.workload.session import (
    Backoff,
    Outage,
    Stopping,
    WorkloadCounts,
    WorkloadSession,
    connect,
)
from replview.demo.workload.tills import ORIGINS, take_on

#: Transactions a second that one web session can easily run on a small machine.
SESSION_RATE = 30.0
WEB_SESSIONS = (4, 24)

#: Share of the rate that comes from each replication origin.
ORIGIN_SHARE = 0.06

#: Backlog in seconds beyond which a session skips work, so that no flood follows an outage.
FORGIVEN_SECONDS = 2.0
#: The modules that register scenarios when they are imported; listed so that none is unused.
MODULES = (
    orders, visitors, tills, catalogue, large_transactions, two_phase, ddl, janitor,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ThreadRole:
    """The work of a thread: paced scenarios at a rate, or timed ones when they are due."""

    session: str
    rate: float | None = None
    on_connect: Callable[[WorkloadSession], None] | None = None
    #: Called when the thread stops; the connection may have a transaction open.
    on_stop: Callable[[WorkloadSession], None] | None = None


def cast(rate: float) -> list[ThreadRole]:
    """Return the roles that together run ``rate`` transactions a second."""
    fewest, most = WEB_SESSIONS
    count = min(most, max(fewest, math.ceil(rate / SESSION_RATE)))
    web_rate = rate * (1 - ORIGIN_SHARE * len(ORIGINS)) / count
    roles = [ThreadRole(session="shop web", rate=web_rate) for _ in range(count)]
    for origin in ORIGINS:
        take = partial(take_on, origin=origin)
        roles.append(ThreadRole(session="shop pos", rate=rate * ORIGIN_SHARE, on_connect=take))
    alone, leave = two_phase.be_the_only_one, two_phase.leave_nothing_behind
    roles.append(ThreadRole(session="shop settle", on_connect=alone, on_stop=leave))
    timed = ("shop batch", "shop batch", "shop import", "shop migrate", "shop janitor")
    return roles + [ThreadRole(session=session) for session in timed]


class Worker(threading.Thread):
    """A thread that runs one role, and connects again after an outage."""

    def __init__(self, role: ThreadRole, workload: "Workload", rng: random.Random) -> None:
        super().__init__(name=role.session, daemon=True)
        self.role = role
        self.workload = workload
        self.rng = rng
        self.conn: psycopg.Connection | None = None

    def run(self) -> None:
        """Connect and work until the workload stops."""
        stop = self.workload.stopping
        backoff = Backoff(self.rng)
        shared: dict[str, Any] = {
            "material": self.workload.material,
            "tally": self.workload.tally,
            "stop": stop,
        }
        while not stop.is_set():
            started_at = time.monotonic()
            try:
                with connect(self.workload.dsn, self.role.session) as self.conn:
                    self._work(
                        WorkloadSession(self.conn, rng=self.rng, **shared), backoff, started_at
                    )
            except Stopping:
                return
            except psycopg.Error as error:
                if not stop.is_set():
                    self.workload.outage.failed(self.role.session, error, started_at)
                    stop.wait(backoff.next_seconds())

    def cancel(self) -> None:
        """Cancel the statement that keeps this thread from stopping."""
        if self.conn is not None and not self.conn.closed:
            # The connection may end meanwhile, which is just as good.
            with suppress(psycopg.Error):
                self.conn.cancel_safe(timeout=0.5)

    def _work(self, session: WorkloadSession, backoff: Backoff, started_at: float) -> None:
        if self.role.on_connect is not None:
            self.role.on_connect(session)
        self.workload.outage.over(started_at)
        backoff.reset()
        try:
            if self.role.rate is not None:
                self._keep_pace(session, self.role.rate)
            else:
                self._keep_time(session)
        except Stopping:
            if self.role.on_stop is not None:
                self.role.on_stop(session)
            raise

    def _keep_pace(self, session: WorkloadSession, rate: float) -> None:
        """Run paced scenarios, ``rate`` a second at random intervals, until stopped."""
        scenarios = of_session(self.role.session)
        weights = [scenario.weight for scenario in scenarios]
        due = time.monotonic() + self.rng.random() / rate
        while True:
            now = time.monotonic()
            session.pause(max(0.0, due - now))
            due = max(due, now - FORGIVEN_SECONDS) + self.rng.gammavariate(4, 1 / (4 * rate))
            self._play(session, self.rng.choices(scenarios, weights)[0])

    def _keep_time(self, session: WorkloadSession) -> None:
        """Run each timed scenario when it is due, until stopped."""
        calm = self.workload.calm_until
        due = {
            scenario: max(time.monotonic(), calm) + self._interval(scenario) * self.rng.random() / 2
            for scenario in of_session(self.role.session)
        }
        while True:
            scenario = min(due, key=lambda scenario: due[scenario])
            session.pause(max(0.0, due[scenario] - time.monotonic()))
            self._play(session, scenario)
            due[scenario] = time.monotonic() + self._interval(scenario)

    def _interval(self, scenario: Scenario) -> float:
        return (scenario.every_seconds or 0.0) * self.rng.uniform(0.6, 1.4)

    def _play(self, session: WorkloadSession, scenario: Scenario) -> None:
        """Run a scenario; an error on a live connection is counted and reported.

        Any error is accepted: somebody may have emptied or altered our tables by hand, and the rest
        of the shop continues.
        """
        try:
            scenario.run(session)
        except Stopping:
            raise
        except Exception as error:
            session.pause(0)
            if session.conn.closed:
                raise
            if session.conn.info.transaction_status != TransactionStatus.IDLE:
                session.conn.rollback()
            session.tally.add("given up")
            self.workload.outage.gave_up(scenario.name, error)


class Workload:
    """The whole shop, which runs from ``start()`` to ``stop()``.

    For the first ``calm_seconds`` there are only short transactions, because the creation of a slot
    waits for every open transaction, prepared ones too.
    """

    def __init__(
        self, dsn: str, *, rate: float = 20.0, seed: int | None = None, calm_seconds: float = 10.0
    ) -> None:
        self.dsn = dsn
        self.tally = WorkloadCounts()
        self.outage = Outage()
        self.stopping = threading.Event()
        self.calm_until = time.monotonic() + calm_seconds
        rng = random.Random(seed)
        self.material: Material = invent(rng.getrandbits(32))
        self._workers = [
            Worker(role, self, random.Random(rng.getrandbits(64))) for role in cast(rate)
        ]

    def start(self) -> None:
        """Start all threads."""
        for worker in self._workers:
            worker.start()

    def stop(self, *, within_seconds: float = 1.7) -> bool:
        """Roll back what is open and close every session; return True when all ended in time.

        Prepared transactions are rolled back as well: they would keep the creation of any slot on
        this server waiting. If there was no time for it, the next start does it.
        """
        end = time.monotonic() + within_seconds
        self.stopping.set()
        self._join(time.monotonic() + within_seconds / 3)
        for worker in self._workers:
            if worker.is_alive() and time.monotonic() < end:
                worker.cancel()
        return self._join(end)

    def _join(self, end: float) -> bool:
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
        return not any(worker.is_alive() for worker in self._workers)


def of_session(session: str) -> list[Scenario]:
    """Return the scenarios of a session."""
    return [scenario for scenario in SCENARIOS if scenario.session == session]
