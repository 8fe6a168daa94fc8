"""This module decides when to confirm, request a keepalive, or poll; it does no I/O.

Only what the store committed is ever confirmed, and positions only move forward. An idle walsender
sends nothing while it receives status updates, so its silence alone means nothing, and an answer is
requested. (TCP does not help where a proxy or load balancer acknowledges what nobody reads.) A peek
makes the server decode from ``restart_lsn`` on, however little it returns.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from decoder.scalars import LSN
from replview.receiver.problems import trouble
from replview.receiver.sessions.slot_functions import WAL_PAGE_BYTES

#: Confirm progress at most this often: each status update makes the server write its slot.
PROGRESS_SECONDS = 0.1
#: Send a status update at least this often (wal_sender_timeout is 10 s).
ALIVE_SECONDS = 3.0
#: Bytes that a server's WAL may have grown while its catalog cannot be queried.
_GROWN_BYTES = 1 << 30
#: Seconds until it is queried again in that case, since each attempt delays every batch.
_ASK_AGAIN_SECONDS = 30.0
#: Seconds of silence after which the next status update requests an answer.
ASK_SECONDS = 2.5
#: Longest wait for an answer. A server that decodes something very large may be silent for long,
#: and would never finish if every session gave up as soon as the one before.
_LONGEST_ANSWER_SECONDS = 640.0
#: Seconds to the next state query after something new; the pause grows to the longest.
SHORTEST_SECONDS = 0.25
LONGEST_SECONDS = 1.0
#: Longest pause between peeks. A peek may take half of the server's time, or a fifth if it decodes
#: open transactions again and again, but no commit waits longer than this.
_PAUSE_SECONDS = 5.0
#: Least seconds between two full peeks while a streamed transaction is open: each sends, and
#: stores, that transaction again from its beginning. Full peeks may take a fifth of the time.
FULL_SECONDS = 2.0
FULL_PAUSES = 4.0
_LONGEST_FULL_SECONDS = 60.0
#: Seconds for which the last page of WAL is not read if it may end within a record.
_PAGE_SECONDS = 3.0
#: Limits of changes in one peek, first and largest. The server spools them to a temporary file.
FIRST_CHANGES = 50_000
MOST_CHANGES = 1_000_000
#: Limits for full peeks, where the limit also cuts open transactions.
FIRST_STREAMED_CHANGES = 1_000_000
MOST_STREAMED_CHANGES = 100_000_000


@dataclass(slots=True)
class Feedback:
    """The position that was stored, the position that was confirmed to the server, and when."""

    #: Everything that ends at or before this is in the store.
    stored_lsn: int
    confirmed_lsn: int = 0
    reported_at: float = 0.0

    def stored(self, lsn: int) -> None:
        """Record that the store has committed everything up to ``lsn``."""
        self.stored_lsn = max(self.stored_lsn, lsn)

    def is_due(self, now: float, *, reply_requested: bool) -> bool:
        """Return whether a status update must be sent at ``now`` (seconds, monotonic)."""
        seconds_since = now - self.reported_at
        progress = self.stored_lsn > self.confirmed_lsn and seconds_since >= PROGRESS_SECONDS
        return reply_requested or progress or seconds_since >= ALIVE_SECONDS

    def reported(self, now: float) -> None:
        """Record that a status update with ``stored_lsn`` was sent at ``now``."""
        self.confirmed_lsn = self.stored_lsn
        self.reported_at = now

    def seconds_to_next(self, now: float) -> float:
        """Return the seconds until a status update is due, if nothing else happens."""
        limit = PROGRESS_SECONDS if self.stored_lsn > self.confirmed_lsn else ALIVE_SECONDS
        return max(0.0, self.reported_at + limit - now)


def idle_position(keepalive_lsn: int, stored_lsn: int, *, pending: bool) -> int | None:
    """Return the keepalive's position if it may be confirmed, so that an idle slot retains no WAL.

    None if it may not: ``pending`` says that something received is not stored, or a transaction is
    half received. An open stream does not count: the server sends it again from its beginning.
    """
    return keepalive_lsn if not pending and keepalive_lsn > stored_lsn else None


@dataclass(slots=True)
class WalEnd:
    """The end of the server's WAL, beyond which a position of the stream is false.

    A false position, once stored and confirmed, would make all later changes look old.
    """

    #: Position that the server last reported.
    known_lsn: int
    ask: Callable[[], LSN | None]
    _asks_at: float = 0.0

    def check(self, lsn: int) -> None:
        """Raise ``SourceProblem`` if a position of the stream is beyond the end of WAL."""
        max_lsn = self.known_lsn + _GROWN_BYTES
        if lsn <= self.known_lsn or (lsn <= max_lsn and time.monotonic() < self._asks_at):
            return
        server_lsn = self.ask()
        if server_lsn is None:
            self._asks_at = time.monotonic() + _ASK_AGAIN_SECONDS
        else:
            self.known_lsn = max_lsn = max(self.known_lsn, server_lsn)
        if lsn > max_lsn:
            raise trouble("beyond_wal", told=LSN(lsn), end=LSN(self.known_lsn))


@dataclass(slots=True)
class Silence:
    """The time of the last sign of life, and of the first unanswered request; monotonic seconds."""

    heard_at: float
    #: Seconds after which a server that does not answer is given up.
    answer_seconds: float
    _asked_at: float | None = None

    def heard(self, now: float) -> None:
        """Record a sign of life of the server at ``now``."""
        self.heard_at = now
        self._asked_at = None

    def asks(self, now: float) -> bool:
        """Return whether the status update at ``now`` must request an answer.

        That is so after ``ASK_SECONDS`` of silence.
        """
        if now - self.heard_at < ASK_SECONDS:
            return False
        if self._asked_at is None:
            self._asked_at = now
        return True

    def is_over_long(self, now: float) -> bool:
        """Return whether the connection must be given up, since an answer is overdue."""
        return self._asked_at is not None and now - self._asked_at >= self.answer_seconds


def patience_seconds(timeout_seconds: float, given_up: int) -> float:
    """Return how long to wait for an answer: twice as long after each session that was given up.

    ``given_up`` is the number of sessions in a row that were given up for the server's silence.
    """
    return min(timeout_seconds * 2.0**given_up, _LONGEST_ANSWER_SECONDS)


class Pacing:
    """The schedule of a polling session: when it queries the server, and for how many changes."""

    def __init__(self) -> None:
        #: Changes to ask for in light peeks and in full peeks. The numbers grow while they are too
        #: small, since each peek of a backlog decodes from the beginning.
        self._most_light = FIRST_CHANGES
        self._most_full = FIRST_STREAMED_CHANGES
        #: True when more waits than the last peek could return, and at the beginning.
        self._backlog = True
        self._light = True
        self._next_at = 0.0
        self._pause_seconds = SHORTEST_SECONDS
        self._began_at = 0.0
        self._decoded_at: float | None = None
        self._full_at = 0.0
        self._full_began_at: float | None = None
        self._page_end = LSN(0)
        self._page_ended_at = 0.0

    def seconds_to_next(self) -> float:
        """Return the seconds until the next state query is due."""
        return max(0.0, self._next_at - time.monotonic())

    def is_light(self, open_streams: bool) -> bool:
        """Return whether the next peek must omit transactions that have not ended.

        A light peek is cut between transactions only, so a backlog is read by light peeks: a full
        one might be cut within the same large transaction every time.
        """
        return self._backlog or (open_streams and time.monotonic() < self._full_at)

    def begin(self, *, light: bool) -> int:
        """Record that a peek begins, and return how many changes to ask for."""
        self._began_at = time.monotonic()
        self._decoded_at = None
        self._light = light
        self._full_began_at = None if light else self._began_at
        return self._most_light if light else self._most_full

    def first_row(self) -> None:
        """Record that the peek's first row came: decoding is over, and the rest is transfer."""
        self._decoded_at = self._decoded_at or time.monotonic()

    def over(self, *, complete: bool, open_streams: bool) -> None:
        """Record that a peek was read to its end, and schedule the next one.

        ``complete`` says that the peek was not cut off at its limit, ``open_streams`` that it sent
        transactions that have not ended.
        """
        now = time.monotonic()
        decoding = (self._decoded_at or now) - self._began_at
        self._pause_seconds = SHORTEST_SECONDS
        self._backlog = not complete
        if complete:
            pause = decoding * (4.0 if open_streams else 1.0)
            self._next_at = now + min(max(pause, SHORTEST_SECONDS), _PAUSE_SECONDS)
        else:
            self._next_at = now
        if not self._light:
            grown = self._most_full * (1 if complete else 2)
            self._most_full = min(MOST_STREAMED_CHANGES, grown)
        elif complete:
            self._most_light = max(FIRST_CHANGES, self._most_light // 2)
        else:
            self._most_light = min(MOST_CHANGES, self._most_light * 2)

    def stored(self) -> None:
        """Record that everything read is stored: the cost of a full peek includes storing it."""
        if self._full_began_at is not None:
            now = time.monotonic()
            cost = (now - self._full_began_at) * FULL_PAUSES
            self._full_at = now + min(max(cost, FULL_SECONDS), _LONGEST_FULL_SECONDS)
            self._full_began_at = None

    def nothing_new(self) -> None:
        """Record that the server's position is unchanged, and schedule the next state query."""
        self._next_at = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(self._pause_seconds * 1.2, LONGEST_SECONDS)

    def later(self, seconds: float) -> None:
        """Postpone the next state query by ``seconds``."""
        self._next_at = time.monotonic() + seconds

    def reach(self, position: LSN) -> LSN:
        """Return the position up to which to peek if the WAL is flushed up to ``position``.

        A position at the end of a page most likely lies within a record, and the server would wait
        for its rest, perhaps for long. So the last page is left for later; but not for ever, since
        a commit may end there by chance.
        """
        now = time.monotonic()
        if position != self._page_end:
            self._page_end, self._page_ended_at = position, now
        if position % WAL_PAGE_BYTES or now - self._page_ended_at > _PAGE_SECONDS:
            return position
        return LSN(position - WAL_PAGE_BYTES)
