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

    def __init__(self, kind: str, offset: int | None, expected: str) -> None:
        super().__init__(kind, offset, expected)
        self.kind = kind
        self.offset = offset
        self.expected = expected

    def __str__(self) -> str:
        place = "" if self.offset is None else f", byte {self.offset}"
        return f"{self.kind}{place}: expected {self.expected}"
