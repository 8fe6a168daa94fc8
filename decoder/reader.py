"""A bounds-checked cursor over one message, and the one error that malformed bytes raise."""

from decoder.scalars import LSN, XID

#: In whatever encoding it was converted to, with the zero byte.
_LONGEST_IDENTIFIER = 63 * 4 + 1


class ProtocolError(Exception):
    """The server's bytes are not what the protocol allows.

    Raised for every kind of malformed input, and the only exception that
    malformed input can raise. Never carries cell values: it is safe to log.
    """

    #: The message kind by its documented name, for instance ``"StreamAbort"``.
    kind: str
    #: Bytes into the message, its tag byte being 0; ``None`` when the message
    #: is well formed but may not come here.
    offset: int | None
    #: What would have been right.
    expected: str
    #: The CopyData frame it was found in, where a stream was being read.
    frame: bytes | None
    #: The transaction the frame belongs to; ``None`` where it belongs to none.
    xid: int | None
    #: Its gid, and where its commit or prepare is, where they are known.
    gid: str | None
    final_lsn: int | None
    #: The table the frame is about, as ``schema.table``; empty where it names none.
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
    """Reads a message body field by field, from its first byte to its last.

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
        """The error to raise about the byte ``back`` bytes before the cursor."""
        return ProtocolError(self._kind, self._start + self._position - back, expected)

    def take(self, size: int, what: str = "bytes") -> bytes:
        end = self._position + size
        if end > len(self._body):
            left = len(self._body) - self._position
            raise self.error(f"{size} more bytes of {what}, not {left}")
        chunk = self._body[self._position : end]
        self._position = end
        return chunk

    def uint8(self, what: str = "uint8") -> int:
        return self.take(1, what)[0]

    def uint16(self, what: str = "uint16") -> int:
        return int.from_bytes(self.take(2, what), "big")

    def uint32(self, what: str = "uint32") -> int:
        return int.from_bytes(self.take(4, what), "big")

    def int32(self, what: str = "int32") -> int:
        return int.from_bytes(self.take(4, what), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8, "int64"), "big", signed=True)

    def xid(self) -> XID:
        return XID(self.uint32("transaction id"))

    def lsn(self, what: str = "LSN") -> LSN:
        return LSN(int.from_bytes(self.take(8, what), "big"))

    def name(self, what: str = "name") -> str:
        """A zero-terminated name: of a table, column, origin, prefix or prepared transaction.

        Bytes that are not valid in the encoding come out as ``\\xNN``: a name
        must not stop the stream.
        """
        end = self._body.find(b"\0", self._position)
        if end < 0:
            raise self.error(f"a zero byte at the end of {what}")
        raw = self._body[self._position : end]
        self._position = end + 1
        return raw.decode(self._encoding, "backslashreplace")

    def identifier(self, what: str) -> str:
        """A name that PostgreSQL bounds: 63 bytes in the server's encoding, so 63 characters."""
        start = self._position
        found = self.name(what)
        if self._position - start > _LONGEST_IDENTIFIER:
            raise self.error(f"{what} of at most 63 characters", back=self._position - start)
        return found

    def no_flags(self) -> None:
        """A flags byte that no server sets: zero, as PostgreSQL's own reader demands."""
        if self.uint8("flags"):
            raise self.error("flags 0", back=1)

    def end(self) -> None:
        left = len(self._body) - self._position
        if left:
            raise self.error(f"the end of the message, not {left} more bytes")
