"""Looks in a steady beat: a thread of the worker begins those that are due, every second.

Celery only says that it is to go on. Its queue is fetched from a few times a second, so a message
for every look would be late whenever other tasks are many; what looks every five seconds must not
wait behind them.
"""

import logging
import threading
import time

from replview.features.sampling.sampling_pool import Rounds
from replview.store import instance_settings
from replview.store.connecting import orm_connection
from replview.store.models import Source
from replview.store.retention.tidy import make_partitions

log = logging.getLogger(__name__)

#: Sources are looked at so often, unless chosen otherwise.
SAMPLING_SECONDS = 5.0
#: How often it is looked whether one is due.
_TICK_SECONDS = 1.0


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
                    self._tick_until_over()
            except Exception:
                # The store is away, or was: begin again on another connection.
                log.exception("sampling is held up")
                time.sleep(_TICK_SECONDS)

    def _tick_until_over(self) -> None:
        following = time.monotonic()
        while not self._is_over():
            sources, every_seconds = due()
            self._rounds.begin(sources, every_seconds)
            # After a delay (a slow store, a machine that slept) the beat starts anew.
            following = max(following + _TICK_SECONDS, time.monotonic())
            time.sleep(max(following - time.monotonic(), 0.0))

    def _is_over(self) -> bool:
        with self._lock:
            if time.monotonic() < self._until:
                return False
            self._running = False
            return True


def due() -> tuple[list[Source], float]:
    """All sources, and how often each is to be looked at, as chosen at this moment."""
    every_seconds = instance_settings.read_number(
        "sampling.seconds", SAMPLING_SECONDS, least=1.0, most=3600.0
    )
    return list(Source.objects.filter(removing_at=None).order_by("pk")), every_seconds
