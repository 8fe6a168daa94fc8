"""Whether the server is still there: pure policy, no I/O.

An idle walsender says nothing as long as we speak, so silence alone tells nothing: it is asked for
a sign of life. TCP does not tell either where a proxy or a load balancer goes on acknowledging what
nobody reads.
"""

from dataclasses import dataclass

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
