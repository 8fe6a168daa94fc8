"""This module defines a session of the shop, and the handling of failures.

A failure of the source is reported once, in one line, and the session waits before it tries again.
"""

import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.abc import Params
from psycopg.pq import TransactionStatus

from replview.demo.workload.material import ACTORS, Material

logger = logging.getLogger(__name__)

#: Seconds after which the same failure is reported again.
REPORT_AGAIN_SECONDS = 60.0
#: Counts that are always reported first; other counts follow by name if they are not zero.
FIRST = ("committed", "rolled back")
#: Longest wait for a lock, after which the scenario gives up, so that the shop does not stall.
LOCK_TIMEOUT = "2s"
#: Share of application transactions that name their actor. The actor of the rest is unknown.
NAMES_ACTOR_SHARE = 0.85


class Backoff:
    """A backoff gives growing, slightly random waits between attempts to connect."""

    FIRST_SECONDS = 0.3
    LONGEST_SECONDS = 8.0

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._seconds = self.FIRST_SECONDS

    def next_seconds(self) -> float:
        """Return the seconds to wait now."""
        seconds = self._seconds
        self._seconds = min(self.LONGEST_SECONDS, seconds * 2)
        return seconds * self._rng.uniform(0.7, 1.3)

    def reset(self) -> None:
        """Start again with the shortest wait."""
        self._seconds = self.FIRST_SECONDS


class Outage:
    """The state of the source, shared by all sessions so that each failure is reported once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged_at: dict[str, float] = {}
        self._unreachable = False
        self._failed_at = 0.0

    def failed(self, session: str, error: psycopg.Error, started_at: float) -> None:
        """Record that a session could not connect, lost its connection, or may not do its work.

        ``started_at`` is when the session started to connect (monotonic). A connection older than
        the last failure was lost with it, even if an idle session notices only after the source was
        reached again.
        """
        if error.sqlstate is None or error.sqlstate[:2] in ("08", "57"):
            with self._lock:
                if not self._unreachable and started_at < self._failed_at:
                    return
                first, self._unreachable = not self._unreachable, True
                self._failed_at = time.monotonic()
            if first:
                logger.warning("source not reachable, trying again: %s", one_line(error))
        elif self._is_news(f"{session} {error.sqlstate}"):
            logger.warning("%s cannot work, trying again: %s", session, one_line(error))

    def over(self, started_at: float) -> None:
        """Record that a session works again.

        ``started_at`` is when the session started to connect (monotonic). A session that did so
        before the last failure may be about to fail too, so it does not end the outage.
        """
        with self._lock:
            is_over = self._unreachable and started_at > self._failed_at
            self._unreachable = self._unreachable and not is_over
        if is_over:
            logger.info("source reached again")

    def gave_up(self, scenario: str, error: Exception) -> None:
        """Report that a scenario failed on a live connection, such as by a lock timeout."""
        if self._is_news(f"{scenario} {type(error).__name__}"):
            logger.warning("%s given up: %s", scenario, one_line(error))

    def _is_news(self, event: str) -> bool:
        now = time.monotonic()
        with self._lock:
            if now - self._logged_at.get(event, -REPORT_AGAIN_SECONDS) < REPORT_AGAIN_SECONDS:
                return False
            self._logged_at[event] = now
        return True


def one_line(error: Exception) -> str:
    """Return the first line of an error, or its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class WorkloadCounts:
    """The counts of what the sessions did, shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[what] += count

    def counts(self) -> Counter[str]:
        """Return a copy of the counts."""
        with self._lock:
            return self._counts.copy()


def minute_line(counts: Counter[str], seconds: float) -> str:
    """Return the counts as one line, with the transactions a second."""
    transactions = counts["committed"] + counts["rolled back"]
    parts = [f"{name} {counts[name]}" for name in FIRST]
    parts += [f"{name} {count}" for name, count in sorted(counts.items()) if name not in FIRST]
    return f"{transactions / seconds:.1f} transactions a second: {', '.join(parts)}"


class Stopping(Exception):
    """The workload was stopped while a session paused."""


def connect(dsn: str, application_name: str) -> psycopg.Connection:
    """Connect as one of the shop's sessions.

    Statements are never prepared: a schema change would make the cached plan an error.
    """
    return psycopg.connect(
        dsn,
        autocommit=True,
        prepare_threshold=None,
        application_name=application_name,
        connect_timeout=3,
        options=f"-c lock_timeout={LOCK_TIMEOUT} -c timezone=UTC",
    )


WorkloadQuery = LiteralString | sql.Composed


@dataclass
class WorkloadSession:
    """A connection, its random numbers, and the shop's shared counters."""

    conn: psycopg.Connection
    _: KW_ONLY
    rng: random.Random
    material: Material
    tally: WorkloadCounts
    stop: threading.Event
    #: True skips the pauses that let a person watch; tests use it.
    hurry: bool = False

    def pause(self, seconds: float) -> None:
        """Wait, unless in a hurry. Raises ``Stopping`` as soon as the workload stops."""
        if self.stop.wait(0 if self.hurry else seconds):
            raise Stopping

    @contextmanager
    def transaction(self, *, discard: bool = False) -> Iterator[None]:
        """Run the block in a transaction, or in a savepoint inside one.

        ``discard`` rolls it back at its end.
        """
        outermost = self.conn.info.transaction_status == TransactionStatus.IDLE
        with self.conn.transaction(force_rollback=discard):
            yield
        if outermost:
            self.tally.add("rolled back" if discard else "committed")

    def claim(self, path: str, *, actor: str | None = None) -> str:
        """Emit, most of the time, a transactional message that names the actor; return the name.

        A job that gives its own name always emits it.
        """
        name = actor or self.rng.choice(ACTORS)
        if actor is not None or self.rng.random() < NAMES_ACTOR_SHARE:
            request_id = f"{self.rng.getrandbits(24):06x}"
            content = json.dumps({"actor": name, "request_id": request_id, "path": path})
            self.conn.execute("SELECT pg_logical_emit_message(true, 'replview', %s)", (content,))
        return name

    def execute(self, query: WorkloadQuery, params: Params | None = None) -> psycopg.Cursor:
        """Run a statement and return its cursor."""
        return self.conn.execute(query, params)

    def value(self, query: WorkloadQuery, params: Params | None = None) -> Any:
        """Return the first column of the first row, or None when there is no row."""
        row = self.conn.execute(query, params).fetchone()
        return None if row is None else row[0]
