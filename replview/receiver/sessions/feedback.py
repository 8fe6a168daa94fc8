"""When to confirm, and what: pure policy, no I/O.

Only what the store committed is ever confirmed; positions only move forward.
"""

from dataclasses import dataclass

#: Confirm progress at most this often: each status update makes the server write its slot.
PROGRESS_SECONDS = 0.1
#: Tell the server that we live at least this often (wal_sender_timeout is 10 s).
ALIVE_SECONDS = 3.0


@dataclass(slots=True)
class Feedback:
    """What was stored, what the server was told, and when."""

    #: Everything that ends at or before this is in the store.
    stored_lsn: int
    confirmed_lsn: int = 0
    told_at: float = 0.0

    def stored(self, lsn: int) -> None:
        """The store committed everything up to ``lsn``."""
        self.stored_lsn = max(self.stored_lsn, lsn)

    def is_due(self, now: float, *, reply_requested: bool) -> bool:
        """Whether to send a status update at ``now`` (seconds, monotonic)."""
        since = now - self.told_at
        progress = self.stored_lsn > self.confirmed_lsn and since >= PROGRESS_SECONDS
        return reply_requested or progress or since >= ALIVE_SECONDS

    def told(self, now: float) -> None:
        """A status update with ``stored_lsn`` was sent."""
        self.confirmed_lsn = self.stored_lsn
        self.told_at = now

    def seconds_to_next(self, now: float) -> float:
        """How long until a status update is due, if nothing else happens."""
        limit = PROGRESS_SECONDS if self.stored_lsn > self.confirmed_lsn else ALIVE_SECONDS
        return max(0.0, self.told_at + limit - now)


def idle_position(keepalive_lsn: int, stored_lsn: int, *, pending: bool) -> int | None:
    """The keepalive's position where nothing received is unstored: an idle slot holds no WAL.

    ``pending``: something received is not stored yet, or a transaction is half received. An open
    stream does not count: the server sends it whole again.
    """
    return keepalive_lsn if not pending and keepalive_lsn > stored_lsn else None


# Whether the server is still there: pure policy, no I/O.
#
# An idle walsender says nothing as long as we speak, so silence alone tells nothing: it is asked
# for a sign of life. TCP does not tell either where a proxy or a load balancer goes on
# acknowledging what nobody reads.


#: After so long without a word the next status update asks for one.
ASK_SECONDS = 2.5
#: One who does not answer for so long is gone: the server itself waits no longer for us.
ANSWER_SECONDS = 10.0
#: A server that is busy with something very large may not answer for long, and would never come to
#: its end if each session gave up as soon as the one before.
_LONGEST_ANSWER_SECONDS = 640.0


@dataclass(slots=True)
class Silence:
    """When the server was last heard, and since when it owes us an answer; monotonic seconds."""

    heard_at: float
    answer_seconds: float = ANSWER_SECONDS
    _asked_at: float | None = None

    def heard(self, now: float) -> None:
        """Something came."""
        self.heard_at = now
        self._asked_at = None

    def asks(self, now: float) -> bool:
        """Whether the status update that is sent now asks for an answer."""
        if now - self.heard_at < ASK_SECONDS:
            return False
        if self._asked_at is None:
            self._asked_at = now
        return True

    def is_over_long(self, now: float) -> bool:
        """Whether to give the server up."""
        return self._asked_at is not None and now - self._asked_at >= self.answer_seconds


def patience_seconds(given_up: int) -> float:
    """How long to wait for an answer after so many sessions in a row were given up in silence."""
    return min(ANSWER_SECONDS * 2.0**given_up, _LONGEST_ANSWER_SECONDS)
