"""What goes wrong with the source, said once and in one line; and how long to wait then."""

from __future__ import annotations

import logging
import random
import threading
import time

import psycopg

logger = logging.getLogger(__name__)

#: The same failure is said again only after this long.
SAY_AGAIN_SECONDS = 60.0


class Backoff:
    """Growing waits between attempts to connect, each a little random."""

    FIRST_SECONDS = 0.3
    LONGEST_SECONDS = 8.0

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._seconds = self.FIRST_SECONDS

    def next_seconds(self) -> float:
        seconds = self._seconds
        self._seconds = min(self.LONGEST_SECONDS, seconds * 2)
        return seconds * self._rng.uniform(0.7, 1.3)

    def reset(self) -> None:
        self._seconds = self.FIRST_SECONDS


class Outage:
    """Shared by all sessions, so that thirty of them do not say the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}
        self._unreachable = False

    def failed(self, session: str, error: psycopg.Error) -> None:
        """A session could not connect, lost its connection, or may not do its work."""
        if error.sqlstate is None or error.sqlstate[:2] in ("08", "57"):
            with self._lock:
                first, self._unreachable = not self._unreachable, True
            if first:
                logger.warning("source not reachable, trying again: %s", one_line(error))
        elif self._is_news(f"{session} {error.sqlstate}"):
            logger.warning("%s cannot work, trying again: %s", session, one_line(error))

    def over(self) -> None:
        """A session is at work again."""
        with self._lock:
            was_unreachable, self._unreachable = self._unreachable, False
        if was_unreachable:
            logger.info("source reached again")

    def gave_up(self, scenario: str, error: Exception) -> None:
        """A scenario failed on a live connection: a lock not had in time, a table changed."""
        if self._is_news(f"{scenario} {type(error).__name__}"):
            logger.warning("%s given up: %s", scenario, one_line(error))

    def _is_news(self, what: str) -> bool:
        now = time.monotonic()
        with self._lock:
            if now - self._said.get(what, -SAY_AGAIN_SECONDS) < SAY_AGAIN_SECONDS:
                return False
            self._said[what] = now
        return True


def one_line(error: Exception) -> str:
    """The first line of what the server or libpq said."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
