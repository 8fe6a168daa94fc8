"""2,000 transactions a second: does the receiver keep its rate while five browsers watch?"""

import time

from tests.benchmarks.bench_servers import bench
from tests.benchmarks.browsers import browsers
from tests.benchmarks.offered_load import offer, prepare
from tests.benchmarks.pairs import Pairs, in_turn
from tests.benchmarks.report import Result
from tests.benchmarks.stack import Stack, stack

PER_SECOND = 2_000
BROWSERS = 5
PAIRS = 2
_CATCH_UP_SECONDS = 120


class Watched:
    """The rates of one run, and what happened meanwhile."""

    def __init__(self, running: Stack, seconds: int) -> None:
        self._running = running
        self._seconds = seconds
        self.offered: list[float] = []
        self.lags_seconds: list[float] = []
        self.received = 0
        self.folded = 0

    def alone(self) -> float:
        """Stored transactions a second with nobody watching."""
        rate, lag_seconds = self._rate()
        self.lags_seconds.append(lag_seconds)
        return rate

    def with_browsers(self) -> float:
        """Return the transactions stored a second while the browsers' sockets are attached."""
        with browsers(self._running, BROWSERS) as watching:
            rate, lag_seconds = self._rate()
        self.lags_seconds.append(lag_seconds)
        self.received += sum(len(browser.latencies_ms) for browser in watching)
        self.folded += sum(browser.folded for browser in watching)
        return rate

    def _rate(self) -> tuple[float, float]:
        """Stored a second, from the first offer to the last commit stored; the lag at the end."""
        before = self._running.stored_transactions()
        started = time.monotonic()
        offered = offer(self._running.servers, PER_SECOND, self._seconds)
        ended = time.monotonic()
        self.offered.append(offered.per_second)
        give_up_at = ended + _CATCH_UP_SECONDS
        while True:
            stored = self._running.stored_transactions() - before
            now = time.monotonic()
            if stored >= offered.transactions or now > give_up_at:
                return stored / (now - started), now - ended
            time.sleep(0.05)


def with_and_without_browsers(*, quick: bool) -> list[Result]:
    """The receiver's rate with sockets against the same without."""
    seconds = 10 if quick else 60
    found = []
    with bench() as servers, servers.slots("live"):
        prepare(servers)
        with stack(servers, "live") as running:
            offer(servers, PER_SECOND, 2)
            watched = Watched(running, seconds)
            for number in range(PAIRS):
                found.append(in_turn(number, watched.with_browsers, watched.alone))
    pairs = Pairs([pair[0] for pair in found], [pair[1] for pair in found])
    detail = (
        f"{pairs.our_median:,.0f} of {pairs.their_median:,.0f} transactions/s stored, "
        f"{min(watched.offered):,.0f} offered, caught up {max(watched.lags_seconds):.1f} s after "
        f"the last; a browser was sent {watched.received / BROWSERS / PAIRS:,.0f} rows, "
        f"{watched.folded / BROWSERS / PAIRS:,.0f} folded"
    )
    what = f"{PER_SECOND:,} transactions/s for {seconds} s, {BROWSERS} browsers / none"
    result = Result.at_least(what, pairs.ratio, 0.9, detail=detail)
    if min(watched.offered) < 0.95 * PER_SECOND:
        return [result.spoilt("pgbench could not offer the load")]
    return [result]
