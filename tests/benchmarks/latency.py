"""Measures the time from a commit to its receipt on a WebSocket, at 500 transactions a second.

The commit's time is PostgreSQL's own, the receipt's is taken on the same machine's clock. A
transaction that was folded was not received: it counts as the worst.
"""

import math
import time

from tests.benchmarks.bench_servers import bench
from tests.benchmarks.browsers import Browser, browsers
from tests.benchmarks.offered_load import offer, prepare
from tests.benchmarks.report import Result
from tests.benchmarks.stack import Stack, stack

PER_SECOND = 500
P50_BAR_MS = 150
P99_BAR_MS = 500
_SETTLE_SECONDS = 15


def commit_to_socket(*, quick: bool) -> list[Result]:
    """p50 and p99 over all transactions of the run."""
    seconds = 10 if quick else 60
    with bench() as servers, servers.slots("live"):
        prepare(servers)
        with stack(servers, "live") as running, browsers(running, 1) as [browser]:
            offer(servers, PER_SECOND, 2)
            _settle(running, browser)
            browser.forget()
            offered = offer(servers, PER_SECOND, seconds)
            _settle(running, browser)
    lost = max(offered.transactions - len(browser.latencies_ms), 0)
    ordered = sorted(browser.latencies_ms) + [math.inf] * lost
    detail = f"{offered.transactions:,} at {offered.per_second:.0f}/s"
    if lost:
        detail += f", {browser.folded:,} of them folded, {lost - browser.folded:,} lost"
    what = f"commit to WebSocket at {PER_SECOND} transactions/s for {seconds} s,"
    return [
        Result.at_most(f"{what} p50", _at(ordered, 0.5), P50_BAR_MS, detail=detail, unit=" ms"),
        Result.at_most(f"{what} p99", _at(ordered, 0.99), P99_BAR_MS, detail=detail, unit=" ms"),
    ]


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else math.inf


def _settle(running: Stack, browser: Browser) -> None:
    """Wait until the browser has received all stored transactions and no more are stored."""
    give_up_at = time.monotonic() + _SETTLE_SECONDS
    before = -1
    while time.monotonic() < give_up_at:
        stored = running.stored_transactions()
        if stored == before and browser.commit_seq >= stored:
            return
        before = stored
        time.sleep(0.5)
