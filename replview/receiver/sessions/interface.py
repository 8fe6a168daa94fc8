"""What a session with a source is to those who read it, whichever way it reads its slot."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from decoder.scalars import LSN


@dataclass(frozen=True, slots=True)
class SystemIdentity:
    """Which cluster it is, and where it stands: what IDENTIFY_SYSTEM says."""

    #: Empty where the server does not tell (SQL on some services).
    system_identifier: str
    timeline: int
    xlog_position: LSN


class StreamEnded(Exception):
    """The server ended the stream without an error: it is stopping. Connect again."""


class Session(Protocol):
    """One connection that gives the changes of one slot, without ever blocking for long.

    What it gives comes in portions: at the beginning of each, the server sends relations, types
    and unfinished streams anew. A walsender's session is a single one.
    """

    #: For whoever must cut it off.
    connection: psycopg.Connection[Any]
    #: The server's position as last heard.
    server_lsn: LSN
    #: Everything before it that is for us has been read.
    keepalive_lsn: LSN
    #: The server wants to hear from us at once.
    reply_requested: bool
    #: Counts portions that are over; the frames of one ``read`` are of one portion.
    portions_read: int
    #: Of the open streamed transactions told to ``settled``: those that the source, asked apart
    #: from the stream, says have aborted.
    aborted_xids: frozenset[int]

    def identify(self) -> SystemIdentity:
        """The server's identity and position."""

    def fork_point(self, timeline: int, left: int) -> LSN | None:
        """Where the server's ``timeline`` left the earlier timeline ``left``; None: not known."""

    def start(self, slot: str, lsn: LSN, options: Mapping[str, str]) -> None:
        """Begin to read ``slot`` after ``lsn``. Raises ``psycopg.Error`` or ``SourceProblem``."""

    def add_waker(self, descriptor: int) -> None:
        """Have ``wait`` return when this descriptor becomes readable, too."""

    def wait(self, timeout_seconds: float) -> bool:
        """Until something can be read or the time is over; whether the waker woke us."""

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        """XLogData frames that have arrived, up to about the limits; never blocks.

        Raises ``StreamEnded``, ``SourceProblem``, or ``psycopg.Error`` as the server ended it.
        """

    def settled(self, stored_lsn: int, open_xids: Collection[int]) -> None:
        """All that was read is stored; everything that ends at or before ``stored_lsn`` is.

        ``open_xids``: streamed transactions whose end has not come.
        """

    def confirm(self, stored_lsn: int, *, clock_us: int) -> None:
        """Tell the server that everything up to ``stored_lsn`` is stored, and nothing more."""

    def close(self) -> None:
        """End it properly: the server has heard our last confirmation, if it still listens."""
