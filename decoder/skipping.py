"""Leave transactions out of a stream before they are decoded.

This is for a transaction that cannot be decoded: its rows are dropped unread. Its
begin and end stay, so that an assembler with ``keeps_empty`` still reports the
transaction.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from decoder.decode import decode_message
from decoder.lifecycle import Streaming
from decoder.reader import ProtocolError
from decoder.replication import XLOGDATA_HEADER_BYTES

#: ``(xid, LSN)`` → true to leave the transaction out. The LSN is that of its commit or
#: prepare, ``None`` for a streamed transaction.
IsWanted = Callable[[int, int | None], bool]

_TAG_AT = XLOGDATA_HEADER_BYTES
_ROWS = b"IUDTM"
_SHAPES = b"RY"
_ENDS = b"ECP"


class FrameFilter:
    """A filter that drops the rows of some transactions from the frames of one session."""

    def __init__(self, wanted: IsWanted, *, streaming: Streaming, encoding: str) -> None:
        self._wanted = wanted
        self._parallel = streaming == "parallel"
        self._encoding = encoding
        self._dropping = False
        self._in_stream = False

    def keep(self, frames: Sequence[bytes]) -> list[bytes]:
        """Return the frames, in order, without the rows of the transactions to leave out."""
        return [frame for frame in frames if self._keeps(frame)]

    def _keeps(self, frame: bytes) -> bool:
        tag = frame[_TAG_AT : _TAG_AT + 1]
        opening = opening_of(frame)
        if opening is not None:
            self._in_stream = tag == b"S"
            self._dropping = self._wanted(*opening)
        elif tag and tag in _ENDS:
            self._dropping = self._in_stream = False
        elif self._dropping and tag and tag in _ROWS:
            return False
        elif self._dropping and tag and tag in _SHAPES:
            return self._decodes(frame[_TAG_AT:])
        return True

    def _decodes(self, payload: bytes) -> bool:
        """Return whether a Relation or Type message decodes; later transactions need its shape."""
        with suppress(ProtocolError):
            decode_message(
                payload, in_stream=self._in_stream, parallel=self._parallel, encoding=self._encoding
            )
            return True
        return False


def opening_of(frame: bytes) -> tuple[int, int | None] | None:
    """Return the xid, and the commit or prepare LSN, of the transaction that a frame opens.

    A frame that continues a streamed transaction counts too. ``None`` for other frames.
    """
    tag = frame[_TAG_AT : _TAG_AT + 1]
    if not tag or tag not in b"BbS":
        return None
    body = frame[_TAG_AT + 1 :]
    if tag == b"B" and len(body) >= 20:
        # The body holds final LSN, commit time, xid.
        return _number(body[16:20]), _number(body[:8])
    if tag == b"b" and len(body) >= 28:
        # The body holds prepare LSN, end LSN, prepare time, xid.
        return _number(body[24:28]), _number(body[:8])
    if tag == b"S" and len(body) >= 4:
        return _number(body[:4]), None
    return None


def message_lsn(frame: bytes) -> int | None:
    """Return the WAL position of a frame's logical message; ``None`` for other frames."""
    return _number(frame[1:9]) if frame[_TAG_AT : _TAG_AT + 1] == b"M" else None


def _number(octets: bytes) -> int:
    return int.from_bytes(octets, "big")
