"""Defines a fault, the scene it acts on, and the list that faults are added to."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos.fleet import Fleet, Worker
from tests.chaos.servers import Servers
from tests.chaos.visibility import Look, Visibility

#: The ways in which a fault shows that it hit.
NEW_SESSION, UNDISTURBED = "a new session", "nothing but progress"


@dataclass
class Scene:
    """The servers, receivers and view of the slot that a fault may use."""

    servers: Servers
    fleet: Fleet
    visibility: Visibility
    rng: random.Random
    #: The slot just before, seen live.
    before: Look

    @property
    def holder(self) -> Worker:
        """The worker that had the lease."""
        return self.fleet.holder(self.before.lease_owner)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of trouble."""

    name: str
    strike: Callable[[Scene], float]
    shows: str = NEW_SESSION
    #: Takes long: few of them in a run.
    slow: bool = False
    #: Only where Celery runs.
    celery: bool = False
    #: To live again within this.
    bar_seconds: float | None = None


FAULTS: dict[str, Fault] = {}


def fault(**options: Any) -> Callable[[Callable[[Scene], float]], Callable[[Scene], float]]:
    """Make a function one of the faults."""

    def register(strike: Callable[[Scene], float]) -> Callable[[Scene], float]:
        name = strike.__name__.replace("_", " ")
        FAULTS[name] = Fault(name, strike, **options)
        return strike

    return register
