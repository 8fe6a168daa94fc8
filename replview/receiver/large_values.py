"""Values that are too large to be held: read in pieces, kept aside in pieces, or only named.

libpq holds a message until all of it has come: that is the one copy of it that there is. From there
it is read in pieces. A large value goes into a file without a name until the store takes it from
there, in pieces again; in its place the decoder is given a word that no source can know, and what
it made of that is exchanged for the value. Of a value that is larger still, only its size and its
SHA-256 are kept.
"""

import codecs
import hashlib
import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

import orjson
from django.conf import settings

from decoder.events import Change, ChangeRun, Event, StandaloneMessage
from decoder.messages import LogicalMessage
from decoder.reader import ProtocolError
from replview.receiver.storing.table_plans import Aside

_MIB = 1024 * 1024
#: Shorter ones stay with their row, however long that is.
SHORT_BYTES = 32 * 1024
#: A message longer than this leaves libpq with a buffer that is worth getting rid of.
SWOLLEN_BYTES = 8 * _MIB
_READ_BYTES = 4 * _MIB
#: Of an XLogData frame, and the tag of the message in it.
_HEAD_BYTES = 25 + 1
#: Types whose binary form is their text; bytea, whose text is its bytes in hexadecimal digits.
_TEXTS = (18, 19, 25, 114, 142, 1042, 1043)
_BYTEA = 17


def too_large(size_bytes: int, sha256: str) -> orjson.Fragment:
    """What stands in the record for a value that is not kept."""
    return orjson.Fragment(orjson.dumps({"$too_large": size_bytes, "$sha256": sha256}))


class LargeValue(Aside):
    """A value to be kept aside, in a file until then."""

    __slots__ = ("_is_hex", "_spooled")

    def __init__(self, characters: int, spooled: "Spooled", *, is_hex: bool) -> None:
        super().__init__(characters)
        self._spooled = spooled
        self._is_hex = is_hex

    def pieces(self) -> Iterator[str]:
        """Its text from the beginning, in pieces of at most 4 million characters."""
        decode = codecs.getincrementaldecoder(self._spooled.encoding)().decode
        if self._is_hex:
            yield "\\x"
        for piece in self._spooled.read(_READ_BYTES // 2 if self._is_hex else _READ_BYTES):
            yield piece.hex() if self._is_hex else decode(piece)


class LargeMessage(LogicalMessage):
    """A logical message whose content is elsewhere."""

    __slots__ = ("stands_for",)

    #: What the record has in the place of its content.
    stands_for: object

    def __init__(self, message: LogicalMessage, stands_for: object) -> None:
        super().__init__(
            transactional=message.transactional, lsn=message.lsn, prefix=message.prefix,
            content=message.content, xid=message.xid,
        )  # fmt: skip
        object.__setattr__(self, "stands_for", stands_for)


class Spooled:
    """A large value as it comes in, and the word that stands for it until the row is decoded."""

    def __init__(self, size_bytes: int, *, is_binary: bool, encoding: str) -> None:
        self.word = f"$large:{secrets.token_hex(16)}"
        self.size_bytes = size_bytes
        self._is_binary = is_binary
        self.encoding = encoding
        self._hash = hashlib.sha256()
        self._decode = codecs.getincrementaldecoder(encoding)().decode
        self._characters = 0
        self._is_text = True
        self._file: IO[bytes] | None = None
        if size_bytes <= settings.VALUE_LIMIT_BYTES:
            # In a container the system's folder for temporary files is its memory.
            folder = settings.DATA_DIR if settings.DATA_DIR.is_dir() else None
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            # Nobody else knows when the last one has read it.
            weakref.finalize(self, self._file.close)

    def write(self, piece: memoryview) -> None:
        self._hash.update(piece)
        if self._file is None:
            return
        self._file.write(piece)
        if self._is_text:
            try:
                text = self._decode(piece)
            except UnicodeError:
                self._is_text = False
            else:
                self._characters += len(text)
                self._is_text = "\0" not in text

    def read(self, size: int) -> Iterator[bytes]:
        """The bytes of a value that is kept, so many at a time."""
        assert self._file is not None
        self._file.seek(0)
        while piece := self._file.read(size):
            yield piece

    def value(self, type_oid: int) -> object:
        """What the row holds in its place: where it is kept, or that it is not. Bytes that are no
        text, or a binary form that only its type could read, are not kept.
        """
        if self._file is None:
            return too_large(self.size_bytes, self._hash.hexdigest())
        if self._is_binary and type_oid == _BYTEA:
            return LargeValue(2 + 2 * self.size_bytes, self, is_hex=True)
        if self._is_text and (not self._is_binary or type_oid in _TEXTS):
            return LargeValue(self._characters, self, is_hex=False)
        return too_large(self.size_bytes, self._hash.hexdigest())


class Pieces:
    """The bytes of one message, of which one piece is there at a time."""

    def __init__(self, first: memoryview, fetch: Callable[[], memoryview]) -> None:
        """``fetch``: the next piece, of no bytes at the message's end; the former is gone then."""
        self._piece, self._at = first, 0
        self._fetch = fetch
        self.size_bytes = len(first)

    def pass_on(self, size: int, write: Callable[[memoryview], object]) -> None:
        """Give so many bytes to ``write``. Raises ``ProtocolError`` where there are fewer."""
        while size:
            if self._at == len(self._piece):
                self._next()
                if not self._piece:
                    raise ProtocolError("CopyData", self.size_bytes, f"{size} more bytes")
            chunk = self._piece[self._at : self._at + size]
            write(chunk)
            self._at += len(chunk)
            size -= len(chunk)

    def take(self, size: int, out: bytearray) -> bytes:
        """Append so many bytes to ``out``, and return them."""
        began = len(out)
        self.pass_on(size, out.extend)
        return bytes(out[began:])

    def name(self, out: bytearray, most_bytes: int) -> None:
        """Append what comes up to a zero byte, and that. Raises ``ProtocolError`` without one."""
        while len(out) <= most_bytes:
            left = self._piece[self._at :]
            end = bytes(left).find(b"\0") + 1
            self.take(end or len(left), out)
            if end:
                return
            # Of the next piece, of which there must be one.
            if self.take(1, out) == b"\0":
                return
        raise ProtocolError("CopyData", len(out), f"a name of at most {most_bytes} bytes")

    def rest(self, out: bytearray, most_bytes: int) -> None:
        """Append all that is left to ``out``. Raises ``ProtocolError`` where it grows too long."""
        while self._piece:
            out += self._piece[self._at :]
            if len(out) > most_bytes:
                raise ProtocolError("CopyData", len(out), f"at most {most_bytes} bytes")
            self._next()

    def end(self) -> None:
        """Raises ``ProtocolError`` where the message goes on."""
        if self._at < len(self._piece):
            raise ProtocolError("CopyData", self.size_bytes, "the end of the message")

    def _next(self) -> None:
        self._piece, self._at = self._fetch(), 0
        self.size_bytes += len(self._piece)


def read_large(pieces: Pieces, *, in_stream: bool, encoding: str) -> tuple[bytes, list[Spooled]]:
    """Read a large XLogData frame: the same frame with words in the place of large values, and
    those. ``in_stream``: whether it stands inside a stream block. Raises ``ProtocolError``.
    """
    out = bytearray()
    tag = pieces.take(_HEAD_BYTES, out)[-1:]
    if tag not in (b"I", b"U", b"D", b"M"):
        pieces.rest(out, settings.VALUE_ASIDE_BYTES)
        return bytes(out), []
    if in_stream:
        pieces.take(4, out)
    reading = _Reading(pieces, out, encoding)
    if tag == b"M":
        reading.message()
    else:
        pieces.take(4, out)
        kind = pieces.take(1, out)
        reading.tuple()
        if tag == b"U" and kind in (b"K", b"O"):
            pieces.take(1, out)
            reading.tuple()
    pieces.end()
    return bytes(out), reading.spooled


class _Reading:
    """One message on its way from pieces to the frame that is decoded."""

    def __init__(self, pieces: Pieces, out: bytearray, encoding: str) -> None:
        self._pieces, self._out, self._encoding = pieces, out, encoding
        self.spooled: list[Spooled] = []

    def tuple(self) -> None:
        for _ in range(int.from_bytes(self._pieces.take(2, self._out), "big")):
            kind = self._pieces.take(1, self._out)
            if kind not in (b"t", b"b"):
                continue
            begins = len(self._out)
            if self._value(is_binary=kind == b"b", encoding=self._encoding):
                self._out[begins - 1] = ord("t")  # as a word is, whatever it stands for

    def message(self) -> None:
        self._pieces.take(1 + 8, self._out)
        self._pieces.name(self._out, settings.VALUE_LIMIT_BYTES)
        # In the database's encoding: what is no UTF-8 is kept as bytes.
        self._value(is_binary=False, encoding="utf-8")

    def _value(self, *, is_binary: bool, encoding: str) -> bool:
        """A length, and so many bytes; whether a word stands for them now."""
        pieces, out = self._pieces, self._out
        size = int.from_bytes(pieces.take(4, out), "big", signed=True)
        if size < 0:
            raise ProtocolError("TupleData", len(out), "a length of 0 or more")
        if size <= SHORT_BYTES or len(out) + size <= settings.VALUE_ASIDE_BYTES:
            pieces.take(size, out)
            return False
        spooled = Spooled(size, is_binary=is_binary, encoding=encoding)
        pieces.pass_on(size, spooled.write)
        word = spooled.word.encode()
        out[-4:] = len(word).to_bytes(4, "big")
        out += word
        self.spooled.append(spooled)
        return True


def put_back(events: Sequence[Event], spooled: Sequence[Spooled]) -> list[Event]:
    """The events with each value in the place of its word."""
    words = {one.word: one for one in spooled}
    left = sum(one.size_bytes - len(one.word) for one in spooled)
    changed: list[Event] = []
    for event in events:
        if isinstance(event, ChangeRun):
            changes = [_with_values(change, words) for change in event.changes]
            event = event._replace(changes=changes, size_bytes=event.size_bytes + left)
            left = 0
        elif isinstance(event, StandaloneMessage):
            event = replace(event, message=_message(event.message, words))
        changed.append(event)
    return changed


def _with_values(change: Change, words: dict[str, Spooled]) -> Change:
    if isinstance(change.new, LogicalMessage):
        return change._replace(new=_message(change.new, words))
    for values in (change.old, change.new):
        if change.relation is not None and isinstance(values, list):
            row: list[Any] = values
            for place, column in enumerate(change.relation.columns):
                if row[place].__class__ is str and row[place] in words:
                    row[place] = words[row[place]].value(column.type_oid)
    return change


def _message(message: LogicalMessage, words: dict[str, Spooled]) -> LogicalMessage:
    found = words.get(message.content.decode(errors="replace"))
    return message if found is None else LargeMessage(message, found.value(_TEXTS[0]))
