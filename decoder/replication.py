"""The CopyData layer of streaming replication, which carries pgoutput messages and replies.

Source: PostgreSQL documentation, "Streaming Replication Protocol"; walsender.c.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar

from decoder.reader import ProtocolError, Reader
from decoder.scalars import LSN

#: Bytes of an XLogData frame before its pgoutput message.
XLOGDATA_HEADER_BYTES = 25

_STATUS_UPDATE = struct.Struct(">cQQQq?")


@dataclass(frozen=True, slots=True, kw_only=True)
class XLogData:
    """A pgoutput message and its position in the WAL (``w``)."""

    #: The change's position in the WAL; 0/0 for messages that are not WAL.
    wal_start: LSN
    #: Equal to ``wal_start`` from a logical walsender.
    wal_end: LSN
    #: The server's clock when it sent the message: microseconds since 2000-01-01 UTC.
    clock_us: int
    #: The pgoutput message, its tag byte first.
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryKeepalive:
    """The server is alive, and reports how far it has decoded (``k``)."""

    #: The position up to which it has decoded, even where nothing was published.
    wal_end: LSN
    #: The server's clock: microseconds since 2000-01-01 UTC.
    clock_us: int
    #: True when the server wants a status update at once, before it ends the connection.
    reply_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyStatusUpdate:
    """The client reports the positions up to which it wrote, flushed and applied WAL (``r``).

    ``flushed`` confirms: the server may forget everything before that position, whether
    or not it was ever sent. Pass only a position up to which everything is stored.
    """

    written: LSN
    flushed: LSN
    applied: LSN
    #: Our clock: microseconds since 2000-01-01 UTC.
    clock_us: int
    #: True to request a keepalive from the server at once.
    reply_requested: bool = False

    TAG: ClassVar[bytes] = b"r"

    def encode(self) -> bytes:
        """Return the CopyData payload. Raises ``struct.error`` for a value that does not fit."""
        return _STATUS_UPDATE.pack(
            self.TAG, self.written, self.flushed, self.applied, self.clock_us, self.reply_requested
        )


def decode_frame(frame: bytes) -> XLogData | PrimaryKeepalive | StandbyStatusUpdate:
    """Decode one CopyData payload of a replication stream, of either direction.

    Raises ``ProtocolError`` if it is malformed or of a kind that logical
    replication does not have.
    """
    tag = frame[:1]
    if tag == b"w":
        read = Reader(frame[1:], "XLogData")
        return XLogData(
            wal_start=read.lsn(),
            wal_end=read.lsn(),
            clock_us=read.int64(),
            payload=frame[XLOGDATA_HEADER_BYTES:],
        )
    if tag == b"k":
        read = Reader(frame[1:], "PrimaryKeepalive")
        keepalive = PrimaryKeepalive(
            wal_end=read.lsn(), clock_us=read.int64(), reply_requested=bool(read.uint8())
        )
        read.end()
        return keepalive
    if tag == b"r":
        read = Reader(frame[1:], "StandbyStatusUpdate")
        update = StandbyStatusUpdate(
            written=read.lsn(),
            flushed=read.lsn(),
            applied=read.lsn(),
            clock_us=read.int64(),
            reply_requested=bool(read.uint8()),
        )
        read.end()
        return update
    raise ProtocolError("CopyData", 0, f"w, k or r, not {tag!r}")
