"""The CopyData layer of streaming replication: what carries pgoutput, and what answers it.

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
    """One pgoutput message and where in the WAL it came from (``w``)."""

    #: Where the change is in the WAL; 0/0 for messages that are not WAL.
    wal_start: LSN
    #: For a logical walsender the same as ``wal_start``.
    wal_end: LSN
    #: The server's clock when it sent: microseconds since 2000-01-01 UTC.
    clock_us: int
    #: The pgoutput message, its tag byte first.
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryKeepalive:
    """The server answers, and says how far it has come (``k``)."""

    #: The position it has decoded to, even where nothing was published.
    wal_end: LSN
    #: The server's clock: microseconds since 2000-01-01 UTC.
    clock_us: int
    #: It wants a status update at once, or it will hang up.
    reply_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyStatusUpdate:
    """The positions up to which WAL was written, flushed and applied here (``r``).

    ``flushed`` confirms: the server may forget everything before it, whether
    or not it was ever sent. Give only what is stored.
    """

    written: LSN
    flushed: LSN
    applied: LSN
    #: Our clock: microseconds since 2000-01-01 UTC.
    clock_us: int
    #: Ask the server for a keepalive at once.
    reply_requested: bool = False

    TAG: ClassVar[bytes] = b"r"

    def encode(self) -> bytes:
        """The CopyData payload. Raises ``struct.error`` for a value that does not fit."""
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
