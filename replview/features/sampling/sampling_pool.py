"""Rounds of looks: every source that is due, side by side, none waiting for another.

Looking and storing are apart: a look waits for its source in a thread of its own and holds nothing
of the store; what it brought is stored by few threads, as it comes. Sources that did not answer the
last time are looked at by other threads than the rest, so that however many of them hang, those
that answer never wait for them.
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
from replview.features.sampling.sample import Seen, read_source, store
from replview.store import instance_settings
from replview.store.connecting import lasting_connection, orm_connection
from replview.store.models import Source
from replview.store.retention.tidy import make_partitions

log = logging.getLogger(__name__)

#: Sources that answer, and those that did not, looked at side by side.
_THREADS, _TROUBLED_THREADS = 32, 32
#: Each with a connection to the store.
_STORING_THREADS = 2

#: The golden ratio's fraction: multiples of it are spread evenly, however many there are.
_SPREAD = 0.6180339887498949

#: Told of each source whose slots have new samples.
Listener = Callable[[int], None]
Brought = tuple[Source, Seen | SourceProblem, float, "Future[None]"]
#: Sources are looked at so often, unless chosen otherwise.
SAMPLING_SECONDS = 5.0
#: How often at most, and how seldom at least, it is looked whether one is due.
_TICK_SECONDS, _LONGEST_TICK_SECONDS = 1.0, 2.5
#: Sleep may end a little early: then the period would not have begun.
_LATE_SECONDS = 0.02


class Rounds:
    """One a process: its threads, the connections it keeps, and who is being looked at."""

    def __init__(self, sampled: Listener) -> None:
        self._sampled = sampled
        self._kept = KeptConnections()
        self._looking = ThreadPoolExecutor(_THREADS, thread_name_prefix="looking")
        self._troubled = ThreadPoolExecutor(_TROUBLED_THREADS, thread_name_prefix="looking-again")
        self._storing = ThreadPoolExecutor(_STORING_THREADS, thread_name_prefix="sampling")
        self._brought: SimpleQueue[Brought] = SimpleQueue()
        self._lock = threading.Lock()
        self._busy: set[int] = set()

    def begin(self, sources: list[Source], every_seconds: float) -> list["Future[None]"]:
        """Look at those due, but for those being looked at; each future is done once stored."""
        now = dt.datetime.now(dt.UTC)
        begun = []
        for source in sources:
            if not is_due(source, every_seconds, now):
                continue
            with self._lock:
                if source.pk in self._busy:
                    continue
                self._busy.add(source.pk)
            done: Future[None] = Future()
            pool = self._troubled if source.problem_code else self._looking
            pool.submit(self._look, source, done)
            begun.append(done)
        with self._lock:
            self._kept.close_others({source.pk for source in sources} | self._busy)
        return begun

    def close(self) -> None:
        """Close the connections that are kept; looks under way end by themselves."""
        self._kept.close()

    def _look(self, source: Source, done: "Future[None]") -> None:
        """In a thread: ask the source, and hand on what it reported."""
        began = time.monotonic()
        try:
            seen = read_source(source, self._kept)
        except Exception:
            log.exception("looking at source %s failed", source.name, extra={"source": source.name})
            self._end(source, done)
            return
        self._brought.put((source, seen, time.monotonic() - began, done))
        self._storing.submit(self._store_all)

    def _store_all(self) -> None:
        """In a thread: store whatever was brought, on one connection; often another has by now."""
        if self._brought.empty():
            return
        with lasting_connection(), suppress(Empty):
            while True:
                self._store(*self._brought.get_nowait())

    def _store(
        self, source: Source, seen: Seen | SourceProblem, took_seconds: float, done: "Future[None]"
    ) -> None:
        try:
            store(source, seen, took_seconds)
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
    """Whether a period of ``every_seconds`` has begun since the source was last looked at.

    Periods are counted from a moment of the source's own: looks do not drift, whenever each is
    done, and sources take turns rather than all at once.
    """
    if source.checked_at is None or every_seconds <= 0:
        return True
    phase = source.pk * _SPREAD % 1

    def period(at: dt.datetime) -> int:
        return int(at.timestamp() / every_seconds - phase)

    return period(now) > period(source.checked_at)


class Steady:
    """Goes on for as long as it is told to, in a thread of its own."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._lock = threading.Lock()
        self._until = 0.0
        self._running = False

    def go_on(self, seconds: float) -> None:
        """For so long from now on; begins if it had ended."""
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
                    # The first look of a new store must find where to write.
                    make_partitions()
                    while not self._is_over():
                        sources, every_seconds = due()
                        self._rounds.begin(sources, every_seconds)
                        time.sleep(until_next(sources, every_seconds, time.time()))
            except Exception:
                # The store is away, or was: begin again on another connection.
                log.exception("sampling is held up")
                time.sleep(_TICK_SECONDS)

    def _is_over(self) -> bool:
        with self._lock:
            if time.monotonic() < self._until:
                return False
            self._running = False
            return True


def until_next(sources: list[Source], every_seconds: float, now: float) -> float:
    """Seconds until the next source's period begins, as far as a tick may be long or short."""
    left = [every_seconds * (1 - (now / every_seconds - s.pk * _SPREAD) % 1) for s in sources]
    soonest = min(left, default=_LONGEST_TICK_SECONDS) + _LATE_SECONDS
    return min(max(soonest, _TICK_SECONDS), _LONGEST_TICK_SECONDS)


def due() -> tuple[list[Source], float]:
    """All sources, and how often each is to be looked at, as chosen at this moment."""
    every_seconds = instance_settings.read_number(
        "sampling.seconds", SAMPLING_SECONDS, least=1.0, most=3600.0
    )
    return list(Source.objects.filter(removing_at=None).order_by("pk")), every_seconds
