"""Receive values that are too large for memory: read and store them in pieces, or note their hash.

libpq holds a whole message until it is complete, and that is the only copy in memory. This module
reads it in pieces. A large value goes into an unnamed file, from which the store takes it in
pieces; the decoder gets a random placeholder word instead, which is replaced by the value
afterwards. Of a value above ``VALUE_LIMIT_BYTES`` only the size and the SHA-256 are kept.
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

from decoder.events import ChangeEvent, ChangeRun, Event, StandaloneMessage
from decoder.messages import LogicalMessage
from decoder.reader import ProtocolError
from replview.receiver.storing.marked_values import Aside

_MIB = 1024 * 1024
#: Values up to this size stay in their row, however long the row is.
SHORT_BYTES = 32 * 1024
#: A message longer than this leaves libpq with an input buffer that is worth freeing.
SWOLLEN_BYTES = 8 * _MIB
_READ_BYTES = 4 * _MIB
#: Bytes of the XLogData header and the message's tag.
_HEAD_BYTES = 25 + 1
#: Oids of the types whose binary form equals their text. bytea's text is its bytes in hexadecimal.
_TEXTS = (18, 19, 25, 114, 142, 1042, 1043)
_BYTEA = 17


def too_large(size_bytes: int, sha256: str) -> orjson.Fragment:
    """Return the JSON that the record has in place of a value that is too large to keep."""
    return orjson.Fragment(orjson.dumps({"$too_large": size_bytes, "$sha256": sha256}))


class SpooledValue(Aside):
    """A large value that the store keeps apart from its row; until then it is in a file."""

    __slots__ = ("_is_hex", "_spooled")

    def __init__(self, characters: int, spooled: "Spooled", *, is_hex: bool) -> None:
        super().__init__(characters)
        self._spooled = spooled
        self._is_hex = is_hex

    def pieces(self) -> Iterator[str]:
        """Yield the value's text, in pieces of at most 4 million characters."""
        decode = codecs.getincrementaldecoder(self._spooled.encoding)().decode
        if self._is_hex:
            yield "\\x"
        for piece in self._spooled.read(_READ_BYTES // 2 if self._is_hex else _READ_BYTES):
            yield piece.hex() if self._is_hex else decode(piece)


class LargeMessage(LogicalMessage):
    """A logical message whose content is kept apart from it."""

    __slots__ = ("stands_for",)

    #: The JSON value that the record has in place of the content.
    stands_for: object

    def __init__(self, message: LogicalMessage, stands_for: object) -> None:
        super().__init__(
            transactional=message.transactional, lsn=message.lsn, prefix=message.prefix,
            content=message.content, xid=message.xid,
        )  # fmt: skip
        object.__setattr__(self, "stands_for", stands_for)


class Spooled:
    """A large value in a file, and the word that stands for it until its row is decoded."""

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
            # Use the data folder: in a container the system's temporary folder may be in memory.
            folder = settings.DATA_DIR if settings.DATA_DIR.is_dir() else None
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            # Close the file with its last reference: several readers may share it.
            weakref.finalize(self, self._file.close)

    def write(self, piece: memoryview) -> None:
        """Add a piece of the value to its hash and, unless it is too large to keep, to its file."""
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
        """Yield the bytes of a value that is kept, in pieces of ``size`` bytes."""
        assert self._file is not None
        self._file.seek(0)
        while piece := self._file.read(size):
            yield piece

    def value(self, type_oid: int) -> object:
        """Return what the row holds instead of the value: a reference to the file, or its hash.

        Size and hash alone are kept of bytes that are not text, and of a binary form that only its
        type could read.
        """
        if self._file is None:
            return too_large(self.size_bytes, self._hash.hexdigest())
        if self._is_binary and type_oid == _BYTEA:
            return SpooledValue(2 + 2 * self.size_bytes, self, is_hex=True)
        if self._is_text and (not self._is_binary or type_oid in _TEXTS):
            return SpooledValue(self._characters, self, is_hex=False)
        return too_large(self.size_bytes, self._hash.hexdigest())


class Pieces:
    """The bytes of one message, of which one piece is in memory at a time."""

    def __init__(self, first: memoryview, fetch: Callable[[], memoryview]) -> None:
        """Begin with the piece ``first``.

        ``fetch`` returns the next piece, which is empty at the message's end; it invalidates the
        one before.
        """
        self._piece, self._at = first, 0
        self._fetch = fetch
        self.size_bytes = len(first)

    def pass_on(self, size: int, write: Callable[[memoryview], object]) -> None:
        """Pass ``size`` bytes to ``write``. Raises ``ProtocolError`` where there are fewer."""
        while size:
            if self._at == len(self._piece):
                self._next()
                if not self._piece:
                    raise ProtocolError("CopyData", self.size_bytes, f"{size} more bytes")
            chunk = self._piece[self._at : self._at + size]
            write(chunk)
            self._at += len(chunk)
            size -= len(chunk)

    def take(self, size: int, buffer: bytearray) -> bytes:
        """Append ``size`` bytes to ``buffer``, and return them."""
        start = len(buffer)
        self.pass_on(size, buffer.extend)
        return bytes(buffer[start:])

    def name(self, buffer: bytearray, most_bytes: int) -> None:
        """Append a zero-terminated string to ``buffer``.

        Raises ``ProtocolError`` if its end is missing.
        """
        while len(buffer) <= most_bytes:
            rest = self._piece[self._at :]
            end = bytes(rest).find(b"\0") + 1
            self.take(end or len(rest), buffer)
            if end:
                return
            # The string goes on in the next piece, which must have a byte.
            if self.take(1, buffer) == b"\0":
                return
        raise ProtocolError("CopyData", len(buffer), f"a name of at most {most_bytes} bytes")

    def rest(self, buffer: bytearray, most_bytes: int) -> None:
        """Append all bytes that are left to ``buffer``.

        Raises ``ProtocolError`` above ``most_bytes``.
        """
        while self._piece:
            buffer += self._piece[self._at :]
            if len(buffer) > most_bytes:
                raise ProtocolError("CopyData", len(buffer), f"at most {most_bytes} bytes")
            self._next()

    def end(self) -> None:
        """Raise ``ProtocolError`` if bytes are left."""
        if self._at < len(self._piece):
            raise ProtocolError("CopyData", self.size_bytes, "the end of the message")

    def _next(self) -> None:
        """Fetch the next piece."""
        self._piece, self._at = self._fetch(), 0
        self.size_bytes += len(self._piece)


def read_large(pieces: Pieces, *, in_stream: bool, encoding: str) -> tuple[bytes, list[Spooled]]:
    """Return a large XLogData frame with words in place of its large values, and those values.

    ``in_stream`` says whether the frame is inside a stream block. Raises ``ProtocolError``.
    """
    buffer = bytearray()
    tag = pieces.take(_HEAD_BYTES, buffer)[-1:]
    if tag not in (b"I", b"U", b"D", b"M"):
        pieces.rest(buffer, settings.VALUE_ASIDE_BYTES)
        return bytes(buffer), []
    if in_stream:
        pieces.take(4, buffer)
    partial_message = _PartialMessage(pieces, buffer, encoding)
    if tag == b"M":
        partial_message.message()
    else:
        pieces.take(4, buffer)
        kind = pieces.take(1, buffer)
        partial_message.tuple()
        if tag == b"U" and kind in (b"K", b"O"):
            pieces.take(1, buffer)
            partial_message.tuple()
    pieces.end()
    return bytes(buffer), partial_message.spooled


class _PartialMessage:
    """One message that is being read from pieces into the frame for the decoder."""

    def __init__(self, pieces: Pieces, buffer: bytearray, encoding: str) -> None:
        self._pieces, self._out, self._encoding = pieces, buffer, encoding
        self.spooled: list[Spooled] = []

    def tuple(self) -> None:
        for _ in range(int.from_bytes(self._pieces.take(2, self._out), "big")):
            kind = self._pieces.take(1, self._out)
            if kind not in (b"t", b"b"):
                continue
            begins = len(self._out)
            if self._value(is_binary=kind == b"b", encoding=self._encoding):
                self._out[begins - 1] = ord("t")  # the word is text, whatever the value's format

    def message(self) -> None:
        self._pieces.take(1 + 8, self._out)
        self._pieces.name(self._out, settings.VALUE_LIMIT_BYTES)
        # The content is in the database's encoding; content that is not UTF-8 is kept as bytes.
        self._value(is_binary=False, encoding="utf-8")

    def _value(self, *, is_binary: bool, encoding: str) -> bool:
        """Copy a length and its value; return True if a word was written in the value's place."""
        pieces, buffer = self._pieces, self._out
        size = int.from_bytes(pieces.take(4, buffer), "big", signed=True)
        if size < 0:
            raise ProtocolError("TupleData", len(buffer), "a length of 0 or more")
        if size <= SHORT_BYTES or len(buffer) + size <= settings.VALUE_ASIDE_BYTES:
            pieces.take(size, buffer)
            return False
        spooled = Spooled(size, is_binary=is_binary, encoding=encoding)
        pieces.pass_on(size, spooled.write)
        placeholder = spooled.word.encode()
        buffer[-4:] = len(placeholder).to_bytes(4, "big")
        buffer += placeholder
        self.spooled.append(spooled)
        return True


def put_back(events: Sequence[Event], spooled: Sequence[Spooled]) -> list[Event]:
    """Return the events with each word replaced by its value."""
    values_by_placeholder = {value.word: value for value in spooled}
    extra_bytes = sum(value.size_bytes - len(value.word) for value in spooled)
    changed: list[Event] = []
    for event in events:
        if isinstance(event, ChangeRun):
            changes = [_with_values(change, values_by_placeholder) for change in event.changes]
            event = event._replace(changes=changes, size_bytes=event.size_bytes + extra_bytes)
            extra_bytes = 0
        elif isinstance(event, StandaloneMessage):
            event = replace(event, message=_message(event.message, values_by_placeholder))
        changed.append(event)
    return changed


def _with_values(change: ChangeEvent, values_by_placeholder: dict[str, Spooled]) -> ChangeEvent:
    if isinstance(change.new, LogicalMessage):
        return change._replace(new=_message(change.new, values_by_placeholder))
    for values in (change.old, change.new):
        if change.relation is not None and isinstance(values, list):
            row: list[Any] = values
            for index, column in enumerate(change.relation.columns):
                if row[index].__class__ is str and row[index] in values_by_placeholder:
                    row[index] = values_by_placeholder[row[index]].value(column.type_oid)
    return change


def _message(message: LogicalMessage, values_by_placeholder: dict[str, Spooled]) -> LogicalMessage:
    value = values_by_placeholder.get(message.content.decode(errors="replace"))
    return message if value is None else LargeMessage(message, value.value(_TEXTS[0]))
