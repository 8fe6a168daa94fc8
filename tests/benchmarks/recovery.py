"""Measures how long a slot goes unread after its receiver was killed or its host vanished.

Real workers and beat, as the process manager would run them: the next worker is started at the
moment the first one goes, and has to boot, notice, and take over.
"""

import os
import signal
import time

from replview.runtime import programs
from tests.benchmarks.bench_servers import INSERT, bench
from tests.benchmarks.processes import Failed, running
from tests.benchmarks.report import Result
from tests.benchmarks.stack import Stack, stack

KILLED_BAR_SECONDS = 15.0
#: The session's wal_sender_timeout, and 15 s.
VANISHED_BAR_SECONDS = 25.0
_GIVE_UP_SECONDS = 90.0


def after_losing_a_receiver(*, quick: bool) -> list[Result]:
    """Return the seconds from a signal until the next receiver has stored a new transaction."""
    times = 1 if quick else 3
    results = []
    with bench() as servers, servers.slots("live"), stack(servers, "live") as running_stack:
        lost = [_seconds(running_stack, n, signal.SIGKILL) for n in range(times)]
        results.append(_result("killed (SIGKILL)", lost, KILLED_BAR_SECONDS))
    with bench() as servers, servers.slots("live"), stack(servers, "live") as running_stack:
        # Stopped, it answers nobody and closes nothing: to the source its host has vanished.
        lost = [_seconds(running_stack, n, signal.SIGSTOP) for n in range(times)]
        results.append(_result("vanished (nothing closes)", lost, VANISHED_BAR_SECONDS))
    return results


def _result(what: str, lost: list[float], bar: float) -> Result:
    seconds = ", ".join(f"{one:.1f}" for one in lost)
    return Result.at_most(
        f"receiver {what}, to the next transaction stored", max(lost), bar,
        detail=f"each: {seconds} s", unit=" s",
    )  # fmt: skip


def _seconds(lost: Stack, number: int, how: signal.Signals) -> float:
    """Lose the receivers' worker; seconds until another has stored a transaction made since."""
    servers = lost.servers
    former = lost.processes["receivers"]
    [worker, _] = programs.workers()
    argv = [part.replace("receivers@", f"receivers-{number}@") for part in worker.argv]
    log = servers.folder / f"receivers-{number}.log"
    before = lost.stored_transactions()
    began = time.monotonic()
    os.kill(former.pid, how)
    following = running(argv, servers.environment, log)
    lost.processes["receivers"] = lost.up.enter_context(following)
    try:
        servers.on_source(INSERT.format(first=10**9 + number, last=10**9 + number))
        while lost.stored_transactions() <= before:
            if time.monotonic() - began > _GIVE_UP_SECONDS:
                raise Failed(f"nothing stored for {_GIVE_UP_SECONDS:.0f} s after {how.name}")
            time.sleep(0.05)
        return time.monotonic() - began
    finally:
        os.kill(former.pid, signal.SIGKILL)
