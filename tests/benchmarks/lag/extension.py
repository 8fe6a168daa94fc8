"""Measures the time from a sample to its points in the chart of an open lag page.

A client speaks as the page's script does: a socket tells that a source was sampled, and the
newest points are fetched. A sample counts from ``sampled_at``, which is when its source told it:
storing it, waking the page and reading it again are all in the time. Both clocks are this
machine's.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.benchmarks.lag.instance import Instance
from tests.benchmarks.lag.many_sources import ManySources
from tests.benchmarks.report import Result

PAGES = 5
BAR_MS = 1000
EVERY_SECONDS = 5
_OPEN_SECONDS = 20


@dataclass
class LagPage:
    """One page with a slot's charts, open from ``open`` to ``close``."""

    replview: Instance
    source: str
    #: Milliseconds from the sample to its points, one a sample.
    extended_ms: list[float] = field(default_factory=list)
    #: The milliseconds that fetching took, one a sample.
    fetched_ms: list[float] = field(default_factory=list)
    problem: str = ""

    def __post_init__(self) -> None:
        self._watching = threading.Event()
        self._closing = False
        self._newest_ms = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        [[self._source_id]] = self.replview.rows(
            "SELECT id FROM source WHERE name = %s", self.source
        )

    def open(self) -> None:
        """Connect, and return once the server tells what it watches."""
        self._thread.start()
        if not self._watching.wait(_OPEN_SECONDS) and not self.problem:
            self.problem = "the socket of samples does not answer"

    def close(self) -> None:
        """Leave the page."""
        self._closing = True
        self._thread.join(10)

    def _run(self) -> None:
        headers = {"Cookie": self.replview.cookie}
        try:
            with (
                connect(
                    f"{self.replview.origin.replace('http', 'ws', 1)}/ws/samples/",
                    origin=self.replview.origin,  # type: ignore[arg-type]
                    additional_headers=headers,
                ) as socket,
                httpx.Client(base_url=self.replview.origin, headers=headers, timeout=20) as web,
            ):
                self._newest_ms = self._fetch(web)
                socket.send(orjson.dumps({"type": "watch", "sources": [self._source_id]}).decode())
                while not self._closing:
                    try:
                        message = orjson.loads(socket.recv(timeout=0.5))
                    except TimeoutError:
                        continue
                    if message["type"] == "watching":
                        self._watching.set()
                    elif message["type"] == "sampled":
                        self._extend(web)
        except (OSError, ConnectionClosed, httpx.HTTPError, LookupError, ValueError) as problem:
            self.problem = f"{type(problem).__name__}: {problem}"
            self._watching.set()

    def _extend(self, web: httpx.Client) -> None:
        started = time.time() * 1000
        newest_ms = self._fetch(web)
        now_ms = time.time() * 1000
        if newest_ms > self._newest_ms:
            self.extended_ms.append(now_ms - newest_ms)
            self.fetched_ms.append(now_ms - started)
            self._newest_ms = newest_ms

    def _fetch(self, web: httpx.Client) -> float:
        """The charts' data; when its newest sample was taken, in milliseconds since 1970."""
        answer = web.get(
            "/lag/data", params={"slot": f"{self.source}/{self.source}_l0", "range": "5m"}
        )
        answer.raise_for_status()
        told: dict[str, Any] = orjson.loads(answer.content)
        moments = [
            moment
            for chart in told["charts"]
            for line in chart["figure"]["data"]
            for moment in line.get("x") or ()
            if isinstance(moment, int | float)
        ]
        return max(moments, default=0.0)


def sample_to_chart(replview: Instance, many: ManySources, *, seconds: int) -> list[Result]:
    """p50 and p95 over all samples of a few open pages; one that never came counts as the worst."""
    step = max(len(many.names) // PAGES, 1)
    pages = [LagPage(replview, name) for name in many.names[::step][:PAGES]]
    try:
        for page in pages:
            page.open()
        time.sleep(seconds)
    finally:
        for page in pages:
            page.close()
    what = f"sample to chart, {len(pages)} pages open beside {len(many.names)} sources"
    if problems := [page.problem for page in pages if page.problem]:
        return [Result(what, f"not measured: {problems[0][:300]}", f"≤ {BAR_MS} ms", ok=False)]
    found = sorted(ms for page in pages for ms in page.extended_ms)
    fetching = sorted(ms for page in pages for ms in page.fetched_ms)
    expected = len(pages) * (seconds // EVERY_SECONDS - 1)
    if len(found) < 0.9 * expected:
        words = f"{len(found)} of {expected} samples came"
        return [Result(what, words, f"≤ {BAR_MS} ms", ok=False)]
    detail = (
        f"p50 {_at(found, 0.5):.0f}, slowest {found[-1]:.0f} ms of {len(found)} samples; fetching "
        f"p50 {_at(fetching, 0.5):.0f} ms"
    )
    return [Result.at_most(f"{what}, p95", _at(found, 0.95), BAR_MS, detail=detail, unit=" ms")]


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
