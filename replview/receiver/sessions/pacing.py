"""When to confirm, when to ask for a keepalive, when to poll: policy, without any I/O.

Only what the store committed is ever confirmed; positions only move forward. An idle walsender says
nothing as long as we speak, so silence alone tells nothing: it is asked. (TCP does not tell either
where a proxy or a load balancer goes on acknowledging what nobody reads.) A peek costs the server
decoding from ``restart_lsn`` on, whatever it gives.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from decoder.scalars import LSN
from replview.receiver.problems import trouble
from replview.receiver.sessions.slot_functions import WAL_PAGE_BYTES

#: Confirm progress at most this often: each status update makes the server write its slot.
PROGRESS_SECONDS = 0.1
#: Tell the server that we live at least this often (wal_sender_timeout is 10 s).
ALIVE_SECONDS = 3.0
#: What a server's WAL may have grown while its catalog cannot be asked.
_GROWN_BYTES = 1 << 30
#: So long it is not asked again then: it would hold up every batch.
_ASK_AGAIN_SECONDS = 30.0
#: After so long without a word the next status update asks for one.
ASK_SECONDS = 2.5
#: A server that is busy with something very large may not answer for long, and would never come to
#: its end if each session gave up as soon as the one before.
_LONGEST_ANSWER_SECONDS = 640.0
#: After something new, look again this soon; then less and less often.
SHORTEST_SECONDS = 0.25
LONGEST_SECONDS = 1.0
#: A peek keeps the server busy no more than half of the time; a fifth, while it decodes open
#: transactions each time anew. But nobody waits longer than this for a commit.
_PAUSE_SECONDS = 5.0
#: While a streamed transaction is open, it is asked for (and stored) anew no more often than this,
#: and a fifth of the time at most.
FULL_SECONDS = 2.0
FULL_PAUSES = 4.0
_LONGEST_FULL_SECONDS = 60.0
#: How long the last page of WAL is left alone where it may end within a record.
_PAGE_SECONDS = 3.0
#: Changes in one peek, at first and at most. The server keeps them in a temporary file.
FIRST_CHANGES = 50_000
MOST_CHANGES = 1_000_000
#: The same of full peeks, whose limit cuts open transactions too.
FIRST_STREAMED_CHANGES = 1_000_000
MOST_STREAMED_CHANGES = 100_000_000


@dataclass(slots=True)
class Feedback:
    """What was stored, what was reported to the server, and when."""

    #: Everything that ends at or before this is in the store.
    stored_lsn: int
    confirmed_lsn: int = 0
    reported_at: float = 0.0

    def stored(self, lsn: int) -> None:
        """Take note that the store has committed everything up to ``lsn``."""
        self.stored_lsn = max(self.stored_lsn, lsn)

    def is_due(self, now: float, *, reply_requested: bool) -> bool:
        """Whether a status update is to be sent at ``now`` (seconds, monotonic)."""
        since = now - self.reported_at
        progress = self.stored_lsn > self.confirmed_lsn and since >= PROGRESS_SECONDS
        return reply_requested or progress or since >= ALIVE_SECONDS

    def reported(self, now: float) -> None:
        """Take note that a status update with ``stored_lsn`` was sent at ``now``."""
        self.confirmed_lsn = self.stored_lsn
        self.reported_at = now

    def seconds_to_next(self, now: float) -> float:
        """How many seconds there are until a status update is due, if nothing else happens."""
        limit = PROGRESS_SECONDS if self.stored_lsn > self.confirmed_lsn else ALIVE_SECONDS
        return max(0.0, self.reported_at + limit - now)


def idle_position(keepalive_lsn: int, stored_lsn: int, *, pending: bool) -> int | None:
    """Return the keepalive's position where it may be confirmed: nothing received is unstored, and
    it is ahead of what is stored. So an idle slot retains no WAL. Else None.

    ``pending``: something received is not stored yet, or a transaction is half received. An open
    stream does not count: the server sends it whole again.
    """
    return keepalive_lsn if not pending and keepalive_lsn > stored_lsn else None


@dataclass(slots=True)
class WalEnd:
    """How far the server's WAL goes. A position of the stream beyond it is false: once stored and
    confirmed, nothing that comes would be taken for new.
    """

    #: As the server last said.
    known_lsn: int
    ask: Callable[[], LSN | None]
    _asks_at: float = 0.0

    def check(self, lsn: int) -> None:
        """Raise ``SourceProblem`` where a position that the stream told lies beyond it."""
        may_have = self.known_lsn + _GROWN_BYTES
        if lsn <= self.known_lsn or (lsn <= may_have and time.monotonic() < self._asks_at):
            return
        said = self.ask()
        if said is None:
            self._asks_at = time.monotonic() + _ASK_AGAIN_SECONDS
        else:
            self.known_lsn = may_have = max(self.known_lsn, said)
        if lsn > may_have:
            raise trouble("beyond_wal", told=LSN(lsn), end=LSN(self.known_lsn))


@dataclass(slots=True)
class Silence:
    """When the server was last heard of, and since when it owes an answer; monotonic seconds."""

    heard_at: float
    #: One who does not answer for so long is gone: the server itself waits no longer for us.
    answer_seconds: float
    _asked_at: float | None = None

    def heard(self, now: float) -> None:
        self.heard_at = now
        self._asked_at = None

    def asks(self, now: float) -> bool:
        """Whether the status update that is sent at ``now`` is to request an answer: after
        ``ASK_SECONDS`` of silence.
        """
        if now - self.heard_at < ASK_SECONDS:
            return False
        if self._asked_at is None:
            self._asked_at = now
        return True

    def is_over_long(self, now: float) -> bool:
        """Whether an answer has not come for so long that the connection is to be given up."""
        return self._asked_at is not None and now - self._asked_at >= self.answer_seconds


def patience_seconds(timeout_seconds: float, given_up: int) -> float:
    """How long to wait for an answer where ``given_up`` sessions in a row were given up for the
    server's silence: twice as long each time.
    """
    return min(timeout_seconds * 2.0**given_up, _LONGEST_ANSWER_SECONDS)


class Pacing:
    """When one polling session asks the server again, and for how much."""

    def __init__(self) -> None:
        #: Light peeks, and full ones: how many changes to ask for. They grow while that is too
        #: few: each peek of a backlog decodes anew.
        self._most_light = FIRST_CHANGES
        self._most_full = FIRST_STREAMED_CHANGES
        #: There was more than the last peek could take. As at the beginning, for all we know.
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
        """How many seconds there are until the next state query is due."""
        return max(0.0, self._next_at - time.monotonic())

    def is_light(self, open_streams: bool) -> bool:
        """Whether the next peek leaves out what has not ended.

        A light one is cut between transactions only, so a backlog is worked off with those: a
        full one could be cut within the same large transaction every time.
        """
        return self._backlog or (open_streams and time.monotonic() < self._full_at)

    def begin(self, *, light: bool) -> int:
        """Take note that a peek begins, and return how many changes to ask for."""
        self._began_at = time.monotonic()
        self._decoded_at = None
        self._light = light
        self._full_began_at = None if light else self._began_at
        return self._most_light if light else self._most_full

    def first_row(self) -> None:
        """Note that the peek's first row came: everything is decoded, and only sent now."""
        self._decoded_at = self._decoded_at or time.monotonic()

    def over(self, *, complete: bool, open_streams: bool) -> None:
        """Take note that a peek was read to its end, and work out when the next one is due.
        ``complete``: it was not cut off at its limit. ``open_streams``: it sent transactions that
        have not ended.
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
        """Take note that everything read is stored: what a full peek costs is known only now."""
        if self._full_began_at is not None:
            now = time.monotonic()
            cost = (now - self._full_began_at) * FULL_PAUSES
            self._full_at = now + min(max(cost, FULL_SECONDS), _LONGEST_FULL_SECONDS)
            self._full_began_at = None

    def nothing_new(self) -> None:
        """Note that the server is where it was: the next state query is due a little later."""
        self._next_at = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(self._pause_seconds * 1.2, LONGEST_SECONDS)

    def later(self, seconds: float) -> None:
        """Have the next state query wait for so many seconds."""
        self._next_at = time.monotonic() + seconds

    def reach(self, position: LSN) -> LSN:
        """Return the position up to which to peek, where the WAL is flushed up to ``position``.

        A position at the end of a page most likely lies within a record, for whose rest the server
        would wait, perhaps for long. So the last page is left for later; but not for ever, since a
        commit may end there by chance.
        """
        now = time.monotonic()
        if position != self._page_end:
            self._page_end, self._page_ended_at = position, now
        if position % WAL_PAGE_BYTES or now - self._page_ended_at > _PAGE_SECONDS:
            return position
        return LSN(position - WAL_PAGE_BYTES)
