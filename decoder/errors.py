"""What the decoder raises: one exception, which says where the bytes went wrong."""


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
