"""Watches the slot from outside: whether its receiver is live, which one it is, and how far."""

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row

#: A heartbeat older than this is none: the receiver gives one a second.
_FRESH_SECONDS = 3.0
_LOOK_SECONDS = 0.05

_LOOK = """
SELECT state, epoch, lease_owner, connected_at, transactions_stored, checkpoint_lsn::text,
       coalesce(extract(epoch FROM clock_timestamp() - heartbeat_at), 1e9)::float8
           AS heartbeat_age_seconds, problem_code, problem_cause,
       coalesce((SELECT max(id) FROM slot_event e WHERE e.slot_id = slot.id
                 AND e.kind <> 'schema'), 0) AS last_event
FROM slot WHERE id = %s
"""


class Stuck(Exception):
    """The awaited state of the slot did not come, and nothing else moved either."""


@dataclass(frozen=True, slots=True)
class Look:
    """The slot's row at one moment."""

    state: str
    epoch: int
    lease_owner: str
    connected_at: dt.datetime | None
    transactions_stored: int
    checkpoint_lsn: str | None
    heartbeat_age_seconds: float
    problem_code: str
    problem_cause: str
    #: The last line of the slot's log, other than of a table's shape.
    last_event: int

    @property
    def is_live(self) -> bool:
        """Streaming, with a fresh heartbeat."""
        fresh = self.heartbeat_age_seconds < _FRESH_SECONDS
        return self.state == "streaming" and fresh and bool(self.lease_owner)

    def same_session(self, other: "Look") -> bool:
        """The same receiver on the same connection."""
        return (self.epoch, self.connected_at) == (other.epoch, other.connected_at)


class Visibility:
    """Looks at one slot, through whatever happens to the store."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], slot_id: int) -> None:
        self._connect = connect
        self._slot_id = slot_id
        self._connection: psycopg.Connection[Any] | None = None

    def look(self) -> Look | None:
        """The slot now; None while the store cannot be asked."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            with self._connection.cursor(row_factory=class_row(Look)) as cursor:
                return cursor.execute(_LOOK, [self._slot_id]).fetchone()
        except psycopg.Error:
            if self._connection is not None:
                self._connection.close()
            return None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def live(self, seconds: float = 120) -> Look:
        """Wait until a receiver is live and stores; the first look that shows it."""
        first: Look | None = None

        def is_storing(look: Look) -> bool:
            nonlocal first
            if first is None or not look.same_session(first) or not look.is_live:
                first = look
            return look.is_live and look.transactions_stored > first.transactions_stored

        return self.until(is_storing, seconds)

    def live_again(self, before: Look, seconds: float = 120) -> Look:
        """Wait until another session than before is live and has stored something."""
        return self.until(
            lambda look: (
                look.is_live
                and not look.same_session(before)
                and look.transactions_stored > before.transactions_stored
            ),
            seconds,
        )

    def until(self, shows: Callable[[Look], bool], seconds: float) -> Look:
        """The first look that shows it. Raises ``Stuck`` when the time is over."""
        deadline = time.monotonic() + seconds
        look = None
        while time.monotonic() < deadline:
            look = self.look()
            if look is not None and shows(look):
                return look
            time.sleep(_LOOK_SECONDS)
        raise Stuck(f"not within {seconds:.0f} s; the slot shows {look}")
