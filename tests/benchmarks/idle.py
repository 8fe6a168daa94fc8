"""Measures the processor time of an idle instance: one source, one slot, no changes.

All of replview's processes, as ``replview up`` starts them, with Redis; the store's backends are
named beside it. Nobody has a page open.
"""

import time
from pathlib import Path

import psutil

from tests.benchmarks.bench_servers import Bench, bench
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.stack import Stack, stack

BAR_PERCENT = 2.0
#: Starting leaves work behind: first samples, partitions, publications.
_SETTLE_SECONDS = 30


def one_quiet_source(*, quick: bool) -> list[Result]:
    """The share of one core, over five minutes."""
    seconds = 60 if quick else 300
    with bench() as servers, servers.slots("idle"), stack(servers, "idle") as up:
        time.sleep(_SETTLE_SECONDS)
        before, began = _used(servers, up), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        percent = {
            name: 100 * (used - before[name]) / took for name, used in _used(servers, up).items()
        }
    store = percent.pop("store")
    detail = ", ".join(f"{name} {share:.2f}" for name, share in percent.items())
    total = sum(percent.values())
    measured = f"{total:.2f} % ({detail}; {seconds} s; the store's server {store:.2f})"
    what = "an idle instance with one quiet source, of one core"
    return [Result(what, measured, f"≤ {BAR_PERCENT:g} %", total <= BAR_PERCENT)]


def _used(servers: Bench, up: Stack) -> dict[str, float]:
    """Seconds of processor time so far, by program, children included."""
    roots = {name: process.pid for name, process in up.processes.items()}
    roots["redis"] = next(
        child.pid for child in psutil.Process().children() if "redis-server" in child.name()
    )
    roots["store"] = int(
        Path(servers.store.data_dir / "postmaster.pid").read_text().splitlines()[0]
    )
    return {name: _tree_seconds(name, pid) for name, pid in roots.items()}


def _tree_seconds(name: str, pid: int) -> float:
    """Return the processor seconds of a process and its children, ended ones included."""
    try:
        root = psutil.Process(pid)
        times = [one.cpu_times() for one in (root, *root.children(recursive=True))]
    except psutil.NoSuchProcess:
        raise Failed(f"{name} has ended") from None
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)
