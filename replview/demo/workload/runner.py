"""The sessions at work: a thread each, paced to the rate, that outlives a server's restart."""

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
from replview.demo.workload.session import Backoff, Outage, Session, Stopping, Tally, connect
from replview.demo.workload.tills import ORIGINS, take_on

#: What one web session manages with room to spare on a small machine.
SESSION_RATE = 30.0
WEB_SESSIONS = (4, 24)

#: The share of the rate that comes from each origin.
ORIGIN_SHARE = 0.06

#: Behind by more than this, a session forgets what it owes: no flood after an outage.
FORGIVEN_SECONDS = 2.0
#: The modules that register scenarios; named so that the imports are seen to be meant.
MODULES = (
    orders, visitors, tills, catalogue, large_transactions, two_phase, ddl, janitor,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Role:
    """What one thread does: paced scenarios at a rate, or timed ones when they are due."""

    session: str
    rate: float | None = None
    on_connect: Callable[[Session], None] | None = None
    #: Called on the way out, with a connection that has nothing open.
    on_stop: Callable[[Session], None] | None = None


def cast(rate: float) -> list[Role]:
    """The roles that together make ``rate`` transactions a second."""
    fewest, most = WEB_SESSIONS
    count = min(most, max(fewest, math.ceil(rate / SESSION_RATE)))
    web_rate = rate * (1 - ORIGIN_SHARE * len(ORIGINS)) / count
    roles = [Role(session="shop web", rate=web_rate) for _ in range(count)]
    for origin in ORIGINS:
        take = partial(take_on, origin=origin)
        roles.append(Role(session="shop pos", rate=rate * ORIGIN_SHARE, on_connect=take))
    alone, leave = two_phase.be_the_only_one, two_phase.leave_nothing_behind
    roles.append(Role(session="shop settle", on_connect=alone, on_stop=leave))
    timed = ("shop batch", "shop batch", "shop import", "shop migrate", "shop janitor")
    return roles + [Role(session=session) for session in timed]


class Worker(threading.Thread):
    """One role in a thread; connects, works, and after an outage connects again."""

    def __init__(self, role: Role, workload: "Workload", rng: random.Random) -> None:
        super().__init__(name=role.session, daemon=True)
        self.role = role
        self.workload = workload
        self.rng = rng
        self.conn: psycopg.Connection | None = None

    def run(self) -> None:
        stop = self.workload.stopping
        backoff = Backoff(self.rng)
        shared: dict[str, Any] = {
            "material": self.workload.material,
            "tally": self.workload.tally,
            "stop": stop,
        }
        while not stop.is_set():
            began = time.monotonic()
            try:
                with connect(self.workload.dsn, self.role.session) as self.conn:
                    self._work(Session(self.conn, rng=self.rng, **shared), backoff, began)
            except Stopping:
                return
            except psycopg.Error as error:
                if not stop.is_set():
                    self.workload.outage.failed(self.role.session, error, began)
                    stop.wait(backoff.next_seconds())

    def cancel(self) -> None:
        """Cancel the statement that keeps this thread from stopping."""
        if self.conn is not None and not self.conn.closed:
            # The connection may end meanwhile, which is what we want.
            with suppress(psycopg.Error):
                self.conn.cancel_safe(timeout=0.5)

    def _work(self, session: Session, backoff: Backoff, began: float) -> None:
        if self.role.on_connect is not None:
            self.role.on_connect(session)
        self.workload.outage.over(began)
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

    def _keep_pace(self, session: Session, rate: float) -> None:
        """Paced scenarios, ``rate`` a second with a natural jitter, until told to stop."""
        scenarios = of_session(self.role.session)
        weights = [scenario.weight for scenario in scenarios]
        due = time.monotonic() + self.rng.random() / rate
        while True:
            now = time.monotonic()
            session.pause(max(0.0, due - now))
            due = max(due, now - FORGIVEN_SECONDS) + self.rng.gammavariate(4, 1 / (4 * rate))
            self._play(session, self.rng.choices(scenarios, weights)[0])

    def _keep_time(self, session: Session) -> None:
        """Timed scenarios, each when it is due, until told to stop."""
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

    def _play(self, session: Session, scenario: Scenario) -> None:
        """Run a scenario; one that fails on a live connection is counted and let go.

        Whatever it is: someone may have emptied or altered our tables by hand, and the rest
        of the shop goes on.
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
    """The whole shop, open from ``start()`` to ``stop()``.

    For the first ``calm_seconds`` there are only short transactions: a slot that is being
    created waits for every transaction that is open, prepared ones too.
    """

    def __init__(
        self, dsn: str, *, rate: float = 20.0, seed: int | None = None, calm_seconds: float = 10.0
    ) -> None:
        self.dsn = dsn
        self.tally = Tally()
        self.outage = Outage()
        self.stopping = threading.Event()
        self.calm_until = time.monotonic() + calm_seconds
        rng = random.Random(seed)
        self.material: Material = invent(rng.getrandbits(32))
        self._workers = [
            Worker(role, self, random.Random(rng.getrandbits(64))) for role in cast(rate)
        ]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def stop(self, *, within_seconds: float = 1.7) -> bool:
        """Roll back what is open and close every session; True when all ended in time.

        Prepared transactions are rolled back as well: left alone, they would keep any new
        slot on this server waiting. Where there was no time for it, the next start does it.
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
    return [scenario for scenario in SCENARIOS if scenario.session == session]
