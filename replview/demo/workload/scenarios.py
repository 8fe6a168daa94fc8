"""This module lists the scenarios of the shop: what each shows, in which session and how often.

A *paced* scenario is one of the many small transactions that make up the rate. A *timed* one runs
at an interval, on a session of its own, whatever the rate.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replview.demo.workload.session import WorkloadSession

Run = Callable[[WorkloadSession], None]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A kind of work of the shop."""

    name: str
    #: Description of what replview's pages show after a run.
    shows: str
    #: The application_name of the sessions that run it.
    session: str
    run: Run
    #: Relative frequency among the paced scenarios of the session.
    weight: float = 0.0
    #: Mean seconds between two runs of a timed scenario.
    every_seconds: float | None = None


#: All scenarios, in the order in which their modules are imported.
SCENARIOS: list[Scenario] = []


def paced(
    *, weight: float, shows: str, session: str = "shop web", discard: bool = False
) -> Callable[[Run], Run]:
    """Register a function as a paced scenario under its own name.

    Each run is one transaction; ``discard`` rolls it back at its end.
    """
    register = _registering(weight=weight, shows=shows, session=session)

    def in_transaction(run: Run) -> Run:
        @functools.wraps(run)
        def whole(session: WorkloadSession) -> None:
            with session.transaction(discard=discard):
                run(session)

        return register(whole)

    return in_transaction


def timed(*, every_seconds: float, shows: str, session: str) -> Callable[[Run], Run]:
    """Register a function as a timed scenario under its own name."""
    return _registering(every_seconds=every_seconds, shows=shows, session=session)


def _registering(**facts: Any) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        SCENARIOS.append(Scenario(name=getattr(run, "__name__", repr(run)), run=run, **facts))
        return run

    return register
