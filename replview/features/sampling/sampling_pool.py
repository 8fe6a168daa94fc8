"""Sample every source that is due, concurrently, so that none waits for another.

Reading and storing are apart: each reading waits for its source in a thread of its own and uses
nothing of the store, and few threads store the results as they arrive. Sources that did not answer
the last time are read by other threads than the rest, so that sources that hang never delay sources
that answer.
"""

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue

from replview.catalog.connection_cache import KeptConnections
from replview.catalog.problems import SourceProblem
from replview.features.sampling.sample import SampleResult, read_source, store
from replview.store import instance_settings
from replview.store.connecting import lasting_connection, orm_connection
from replview.store.models import Source
from replview.store.retention.tidy import make_partitions

log = logging.getLogger(__name__)

#: Threads for sources that answered the last time, and for sources that did not.
_THREADS, _TROUBLED_THREADS = 32, 32
#: Threads that store results, each with a connection to the store.
_STORING_THREADS = 2

#: The fraction of the golden ratio: the fractions of its multiples are spread evenly.
_SPREAD = 0.6180339887498949

#: Called with the id of each source whose slots have new samples.
Listener = Callable[[int], None]
WaitingResult = tuple[Source, SampleResult | SourceProblem, float, "Future[None]"]
#: Default seconds between two samples of a source.
SAMPLING_SECONDS = 5.0
#: Shortest and longest time between two checks for sources that are due.
_TICK_SECONDS, _LONGEST_TICK_SECONDS = 1.0, 2.5
#: Seconds to sleep longer, since a sleep that ends early would miss the period's start.
_LATE_SECONDS = 0.02


class Rounds:
    """The threads and kept connections that sample sources; one instance per process."""

    def __init__(self, sampled: Listener) -> None:
        self._sampled = sampled
        self._kept = KeptConnections()
        self._looking = ThreadPoolExecutor(_THREADS, thread_name_prefix="looking")
        self._troubled = ThreadPoolExecutor(_TROUBLED_THREADS, thread_name_prefix="looking-again")
        self._storing = ThreadPoolExecutor(_STORING_THREADS, thread_name_prefix="sampling")
        self._waiting: SimpleQueue[WaitingResult] = SimpleQueue()
        self._lock = threading.Lock()
        self._busy: set[int] = set()

    def begin(self, sources: list[Source], every_seconds: float) -> list["Future[None]"]:
        """Start sampling the sources that are due; each future ends once its sample is stored."""
        now = dt.datetime.now(dt.UTC)
        futures = []
        for source in sources:
            if not is_due(source, every_seconds, now):
                continue
            with self._lock:
                if source.pk in self._busy:
                    continue
                self._busy.add(source.pk)
            done: Future[None] = Future()
            pool = self._troubled if source.problem_code else self._looking
            pool.submit(self._read, source, done)
            futures.append(done)
        with self._lock:
            self._kept.close_others({source.pk for source in sources} | self._busy)
        return futures

    def close(self) -> None:
        """Close the kept connections; readings in progress end by themselves."""
        self._kept.close()

    def _read(self, source: Source, done: "Future[None]") -> None:
        """Read the source, in a thread, and hand on the result."""
        began = time.monotonic()
        try:
            result = read_source(source, self._kept)
        except Exception:
            log.exception("looking at source %s failed", source.name, extra={"source": source.name})
            self._end(source, done)
            return
        self._waiting.put((source, result, time.monotonic() - began, done))
        self._storing.submit(self._store_all)

    def _store_all(self) -> None:
        """Store all waiting results on one connection; another thread may have stored them."""
        if self._waiting.empty():
            return
        with lasting_connection(), suppress(Empty):
            while True:
                self._store(*self._waiting.get_nowait())

    def _store(
        self,
        source: Source,
        result: SampleResult | SourceProblem,
        took_seconds: float,
        done: "Future[None]",
    ) -> None:
        try:
            store(source, result, took_seconds)
            self._sampled(source.pk)
        except Exception:
            fields = {"source": source.name}
            log.exception("sampling source %s failed", source.name, extra=fields)
        finally:
            self._end(source, done)

    def _end(self, source: Source, done: "Future[None]") -> None:
        with self._lock:
            self._busy.discard(source.pk)
        done.set_result(None)


def is_due(source: Source, every_seconds: float, now: dt.datetime) -> bool:
    """Return whether a period of ``every_seconds`` has begun since the source was last sampled.

    Each source's periods have their own phase. So samples do not drift with their duration, and
    sources take turns.
    """
    if source.checked_at is None or every_seconds <= 0:
        return True
    phase = source.pk * _SPREAD % 1

    def period(at: dt.datetime) -> int:
        return int(at.timestamp() / every_seconds - phase)

    return period(now) > period(source.checked_at)


class Steady:
    """Sampling in a thread, which runs until ``go_on`` was not called for a while."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._lock = threading.Lock()
        self._until = 0.0
        self._running = False

    def go_on(self, seconds: float) -> None:
        """Sample for so many seconds from now; start the thread if it had ended."""
        with self._lock:
            self._until = max(self._until, time.monotonic() + seconds)
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="steady-sampling", daemon=True).start()

    def _run(self) -> None:
        while not self._is_over():
            try:
                with orm_connection():
                    # A new store needs partitions for its first sample.
                    make_partitions()
                    while not self._is_over():
                        sources, every_seconds = due()
                        self._rounds.begin(sources, every_seconds)
                        time.sleep(until_next(sources, every_seconds, time.time()))
            except Exception:
                # The store is or was unreachable, so open a new connection.
                log.exception("sampling is held up")
                time.sleep(_TICK_SECONDS)

    def _is_over(self) -> bool:
        with self._lock:
            if time.monotonic() < self._until:
                return False
            self._running = False
            return True


def until_next(sources: list[Source], every_seconds: float, now: float) -> float:
    """Return the seconds until the next source is due, within the bounds of a tick."""
    seconds_left = [
        every_seconds * (1 - (now / every_seconds - source.pk * _SPREAD) % 1) for source in sources
    ]
    soonest = min(seconds_left, default=_LONGEST_TICK_SECONDS) + _LATE_SECONDS
    return min(max(soonest, _TICK_SECONDS), _LONGEST_TICK_SECONDS)


def due() -> tuple[list[Source], float]:
    """Return all sources, and the sampling interval that is set at this moment."""
    every_seconds = instance_settings.read_number(
        "sampling.seconds", SAMPLING_SECONDS, least=1.0, most=3600.0
    )
    return list(Source.objects.filter(removing_at=None).order_by("pk")), every_seconds
