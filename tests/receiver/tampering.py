"""Messages of a stream that are changed on their way."""

import struct
import threading
from collections.abc import Callable

#: Of an XLogData frame: its letter, two positions, a clock. The message comes after it.
HEAD = 25


class Tampering:
    """A proxy's rewriting of the first CopyData whose message begins with ``tag``."""

    def __init__(self, tag: bytes, instead: Callable[[bytes], bytes]) -> None:
        self.done = False
        self._tag, self._instead = tag, instead
        self._local = threading.local()

    def __call__(self, chunk: bytes) -> bytes:
        # Each connection has a thread of its own.
        buffer = getattr(self._local, "buffer", b"") + chunk
        out = b""
        if not hasattr(self._local, "begun"):
            # The server's one-letter answers to a request for encryption.
            self._local.begun = len(buffer) > 1
            if not self._local.begun:
                return buffer
        while len(buffer) >= 5 and len(buffer) > (size := int.from_bytes(buffer[1:5], "big")):
            message, buffer = buffer[: size + 1], buffer[size + 1 :]
            out += self._passed(message)
        self._local.buffer = buffer
        return out

    def _passed(self, message: bytes) -> bytes:
        payload = message[5:]
        tag = payload[HEAD : HEAD + 1] if payload[:1] == b"w" else payload[:1]
        if message[:1] != b"d" or self.done or tag != self._tag:
            return message
        self.done = True
        return self._instead(payload)


def data(payload: bytes) -> bytes:
    """A CopyData."""
    return b"d" + struct.pack(">i", len(payload) + 4) + payload
