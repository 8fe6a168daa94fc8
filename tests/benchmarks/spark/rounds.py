"""Jobs measured in turn, so that what else the machine does falls on all of them alike."""

import statistics
import time
from collections.abc import Callable

_ROUNDS = 3


def medians(*jobs: Callable[[int], None]) -> list[float]:
    """Seconds of each job, which is given the round's number; the first round only warms."""
    seconds: list[list[float]] = [[] for _ in jobs]
    for number in range(_ROUNDS + 1):
        for job, found in zip(jobs, seconds, strict=True):
            started = time.monotonic()
            job(number)
            found.append(time.monotonic() - started)
    return [statistics.median(found[1:]) for found in seconds]
