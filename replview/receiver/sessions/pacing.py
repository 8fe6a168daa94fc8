"""When to poll a slot, and for how much: pure policy but for the clock.

A peek costs the server decoding from ``restart_lsn`` on, whatever it gives.
"""

import time

from decoder.scalars import LSN
from replview.receiver.sessions.slot_functions import WAL_PAGE_BYTES

#: After something new, look again this soon; then less and less often.
SHORTEST_SECONDS = 0.25
LONGEST_SECONDS = 1.0
#: A peek keeps the server busy no more than half of the time; a fifth, while it decodes open
#: transactions each time anew. But nobody waits longer than this for a commit.
_PAUSE_SECONDS = 5.0
#: While a streamed transaction is open, it is asked for (and stored) anew no more often than this,
#: and a fifth of the time at most.
_FULL_SECONDS = 2.0
_FULL_PAUSES = 4.0
_LONGEST_FULL_SECONDS = 60.0
#: How long the last page of WAL is left alone where it may end within a record.
_PAGE_SECONDS = 3.0
#: Changes in one peek, at first and at most. The server keeps them in a temporary file.
FIRST_CHANGES = 50_000
MOST_CHANGES = 1_000_000
#: The same of full peeks, whose limit cuts open transactions too.
FIRST_STREAMED_CHANGES = 1_000_000
MOST_STREAMED_CHANGES = 100_000_000


class Pacing:
    """The rhythm of one session."""

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
        """How long until the next look."""
        return max(0.0, self._next_at - time.monotonic())

    def is_light(self, open_streams: bool) -> bool:
        """Whether the next peek leaves out what has not ended.

        A light one is cut between transactions only, so a backlog is worked off with those: a
        full one could be cut within the same large transaction every time.
        """
        return self._backlog or (open_streams and time.monotonic() < self._full_at)

    def begin(self, *, light: bool) -> int:
        """A peek begins; how many changes to ask for."""
        self._began_at = time.monotonic()
        self._decoded_at = None
        self._light = light
        self._full_began_at = None if light else self._began_at
        return self._most_light if light else self._most_full

    def first_row(self) -> None:
        """The server has decoded all; what is left is to send it."""
        self._decoded_at = self._decoded_at or time.monotonic()

    def over(self, *, complete: bool, open_streams: bool) -> None:
        """A peek has been read to its end; ``complete``: it was not cut off at its limit."""
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
        """All that was read is stored; a full peek has cost until now."""
        if self._full_began_at is not None:
            now = time.monotonic()
            cost = (now - self._full_began_at) * _FULL_PAUSES
            self._full_at = now + min(max(cost, _FULL_SECONDS), _LONGEST_FULL_SECONDS)
            self._full_began_at = None

    def nothing_new(self) -> None:
        """A look found the server where it was."""
        self._next_at = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(self._pause_seconds * 1.2, LONGEST_SECONDS)

    def later(self, seconds: float) -> None:
        """Look again after so long."""
        self._next_at = time.monotonic() + seconds

    def reach(self, position: LSN) -> LSN:
        """Up to where to peek, the WAL being safe up to ``position``.

        Where that is the end of a page, it most likely ends within a record, for whose rest the
        server would wait, for long if nobody commits. So that page is left for later; but not for
        ever, for a commit may end there by chance.
        """
        now = time.monotonic()
        if position != self._page_end:
            self._page_end, self._page_ended_at = position, now
        if position % WAL_PAGE_BYTES or now - self._page_ended_at > _PAGE_SECONDS:
            return position
        return LSN(position - WAL_PAGE_BYTES)
