"""This module has a bounds-checked cursor over one message, and the error for malformed bytes."""

from decoder.scalars import LSN, XID

#: Bytes: 63 characters of at most 4 bytes in any encoding, and the zero byte.
_LONGEST_IDENTIFIER = 63 * 4 + 1


class ProtocolError(Exception):
    """The server's bytes violate the protocol.

    Every kind of malformed input raises this exception, and no other one.
    It never carries cell values, so it is safe to log.
    """

    #: The message kind by its documented name, for instance ``"StreamAbort"``.
    kind: str
    #: Bytes from the start of the message, where its tag byte is 0; ``None`` when the message
    #: is well formed but not allowed at this point.
    offset: int | None
    #: The correct input at this place, as a phrase.
    expected: str
    #: The CopyData frame with the error; ``None`` when no stream was being read.
    frame: bytes | None
    #: The transaction the frame belongs to; ``None`` where it belongs to none.
    xid: int | None
    #: The transaction's gid and the position of its commit or prepare, where known.
    gid: str | None
    final_lsn: int | None
    #: The table of the frame's change, as ``schema.table``; empty where it names none.
    relation: str

    def __init__(self, kind: str, offset: int | None, expected: str) -> None:
        super().__init__(kind, offset, expected)
        self.kind = kind
        self.offset = offset
        self.expected = expected
        self.frame = self.xid = self.gid = self.final_lsn = None
        self.relation = ""

    def __str__(self) -> str:
        place = "" if self.offset is None else f", byte {self.offset}"
        return f"{self.kind}{place}: expected {self.expected}"


class Reader:
    """A reader of a message body, field by field, from its first byte to its last.

    Every method moves past what it returns and raises ``ProtocolError`` when
    the message ends before it. Integers are big-endian, as in pqformat.c.
    """

    __slots__ = ("_body", "_encoding", "_kind", "_position", "_start")

    def __init__(self, body: bytes, kind: str, *, start: int = 1, encoding: str = "utf-8") -> None:
        """``kind`` names the message in errors; ``start`` is where ``body`` begins in it."""
        self._body = body
        self._kind = kind
        self._start = start
        self._encoding = encoding
        self._position = 0

    def error(self, expected: str, *, back: int = 0) -> ProtocolError:
        """Return, for the caller to raise, the error about the byte ``back`` before the cursor."""
        return ProtocolError(self._kind, self._start + self._position - back, expected)

    def take(self, size: int, what: str = "bytes") -> bytes:
        """Read ``size`` bytes; ``what`` names them in the error."""
        end = self._position + size
        if end > len(self._body):
            left = len(self._body) - self._position
            raise self.error(f"{size} more bytes of {what}, not {left}")
        chunk = self._body[self._position : end]
        self._position = end
        return chunk

    def uint8(self, what: str = "uint8") -> int:
        """Read one unsigned byte."""
        return self.take(1, what)[0]

    def uint16(self, what: str = "uint16") -> int:
        """Read an unsigned integer of two bytes."""
        return int.from_bytes(self.take(2, what), "big")

    def uint32(self, what: str = "uint32") -> int:
        """Read an unsigned integer of four bytes."""
        return int.from_bytes(self.take(4, what), "big")

    def int32(self, what: str = "int32") -> int:
        """Read a signed integer of four bytes."""
        return int.from_bytes(self.take(4, what), "big", signed=True)

    def int64(self) -> int:
        """Read a signed integer of eight bytes."""
        return int.from_bytes(self.take(8, "int64"), "big", signed=True)

    def xid(self) -> XID:
        """Read a transaction id of 32 bits."""
        return XID(self.uint32("transaction id"))

    def lsn(self, what: str = "LSN") -> LSN:
        """Read a position in the WAL."""
        return LSN(int.from_bytes(self.take(8, what), "big"))

    def name(self, what: str = "name") -> str:
        r"""Read a zero-terminated name of a table, column, origin, prefix or prepared transaction.

        Bytes that are not valid in the encoding come out as ``\xNN``: a name
        must not stop the stream.
        """
        end = self._body.find(b"\0", self._position)
        if end < 0:
            raise self.error(f"a zero byte at the end of {what}")
        raw = self._body[self._position : end]
        self._position = end + 1
        return raw.decode(self._encoding, "backslashreplace")

    def identifier(self, what: str) -> str:
        """Read a name of at most 63 bytes in the server's encoding, so at most 63 characters."""
        start = self._position
        name = self.name(what)
        if self._position - start > _LONGEST_IDENTIFIER:
            raise self.error(f"{what} of at most 63 characters", back=self._position - start)
        return name

    def no_flags(self) -> None:
        """Skip a flags byte that no server sets: it must be zero, as in PostgreSQL's own reader."""
        if self.uint8("flags"):
            raise self.error("flags 0", back=1)

    def end(self) -> None:
        """Raise ``ProtocolError`` if bytes are left over."""
        left = len(self._body) - self._position
        if left:
            raise self.error(f"the end of the message, not {left} more bytes")
