"""Messages of a stream that are changed on their way, and the memory that this takes."""

import resource
import struct
import threading
from collections.abc import Callable

#: The size of an XLogData frame before its message: a letter, two positions and a clock.
HEAD = 25
#: The most memory that a receiver may need, whatever it receives.
MOST_BYTES = 150_000_000


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
        if self.done or tag_of(message) != self._tag:
            return message
        self.done = True
        return self._instead(message[5:])


class Swapping(Tampering):
    """The first CopyData whose message begins with ``tag`` comes after the next one."""

    def __init__(self, tag: bytes) -> None:
        super().__init__(tag, data)
        self._held = b""

    def _passed(self, message: bytes) -> bytes:
        if self.done or tag_of(message) in (b"", b"k"):
            return message
        if not self._held:
            if tag_of(message) == self._tag:
                self._held = message
                return b""
            return message
        self.done = True
        return message + self._held


class GoingBack(Tampering):
    """A transaction, from its Begin to its Commit, that says of itself to be ``bytes`` older."""

    def __init__(self, by_bytes: int) -> None:
        super().__init__(b"C", data)
        self._by_bytes = by_bytes
        self._begun = False

    def _passed(self, message: bytes) -> bytes:
        tag, begins = tag_of(message), 5 + HEAD + 1
        if self.done or tag not in (b"B", b"C") or (tag == b"C" and not self._begun):
            return message
        self._begun, self.done = True, tag == b"C"
        # A Commit has its flags first, and its end after its own position.
        places = (begins,) if tag == b"B" else (begins + 1, begins + 9)
        for place in places:
            lsn = int.from_bytes(message[place : place + 8], "big") - self._by_bytes
            message = message[:place] + lsn.to_bytes(8, "big") + message[place + 8 :]
        return message


def tag_of(message: bytes) -> bytes:
    """Return the tag of the message in a CopyData, or that of the frame; empty: it is none."""
    payload = message[5:] if message[:1] == b"d" else b""
    return payload[HEAD : HEAD + 1] if payload[:1] == b"w" else payload[:1]


def peak_bytes() -> int:
    """Return the most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def data(payload: bytes) -> bytes:
    """A CopyData."""
    return b"d" + struct.pack(">i", len(payload) + 4) + payload
