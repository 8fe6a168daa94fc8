"""Every scenario once, in a fixed order and without pauses: for tests and captures."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from replview.demo.workload import ddl, janitor, tills, two_phase
from replview.demo.workload.material import Material, invent
from replview.demo.workload.runner import of_session
from replview.demo.workload.session import WorkloadCounts, WorkloadSession, connect


def run_every_scenario_once(dsn: str, *, seed: int = 1) -> list[str]:
    """Run each scenario once on a prepared database, and return what was done, in order.

    Beyond the list of scenarios: each schema cycle goes all the way round, settlements are
    committed and rolled back, one of them large enough to be streamed, and the janitor
    deletes and truncates. No prepared transaction is left.
    """
    material = invent(seed)
    done: list[str] = []
    for name in ("shop web", "shop pos", "shop import", "shop batch"):
        with _opened(dsn, name, seed, material) as session:
            if name == "shop pos":
                tills.take_on(session, tills.ORIGINS[0])
            for scenario in of_session(name):
                scenario.run(session)
                done.append(scenario.name)
    with _opened(dsn, "shop settle", seed, material) as session:
        done += _settle(session)
    with _opened(dsn, "shop migrate", seed, material) as session:
        done += _change_schema(session)
    with _opened(dsn, "shop janitor", seed, material) as session:
        done += _clean_up(session)
    return done


@contextmanager
def _opened(dsn: str, name: str, seed: int, material: Material) -> Iterator[WorkloadSession]:
    with connect(dsn, name) as conn:
        yield WorkloadSession(
            conn,
            rng=random.Random(f"{seed} {name}"),
            material=material,
            tally=WorkloadCounts(),
            stop=threading.Event(),
            hurry=True,
        )


def _settle(session: WorkloadSession) -> list[str]:
    many = two_phase.MANY_PAYMENTS
    for payments, slip, commit in ((20, False, True), (20, True, False), (many, True, True)):
        gid = two_phase.prepare_settlement(session, payments=payments, slip=slip)
        two_phase.finish(session.conn, gid, commit=commit)
    return ["settle_payments", "hear_from_bank"]


def _change_schema(session: WorkloadSession) -> list[str]:
    for cycle in ddl.CYCLES:
        for _ in cycle.steps:
            ddl.take_step(session, cycle)
    return ["change_schema"]


def _clean_up(session: WorkloadSession) -> list[str]:
    janitor.clean_up(session)
    janitor.delete_old(session, "orders", keep=600)
    janitor.delete_old_customers(session, keep=0)
    janitor.empty_large(session, above_bytes=0)
    return ["clean_up"]
