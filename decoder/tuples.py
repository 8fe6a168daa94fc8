"""TupleData: one row as the wire gives it, and what a column's value may be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from decoder.reader import Reader

NULL: Final = ord("n")
UNCHANGED_TOAST: Final = ord("u")
TEXT: Final = ord("t")
BINARY: Final = ord("b")


class NoValue(Enum):
    """Why a column has no value, where the reason is not SQL NULL."""

    #: An update left a TOASTed value alone, so the server did not send it.
    UNCHANGED = "unchanged"
    #: The tuple is a key, and the column is not part of it.
    NOT_SENT = "not sent"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = NoValue.UNCHANGED
NOT_SENT: Final = NoValue.NOT_SENT


@dataclass(frozen=True, slots=True)
class Undecoded:
    """A value kept as the server's bytes, because they cannot be read as text.

    ``binary``: the type is not one that ``decoder.binary`` knows. ``text``: the
    bytes are not valid in the stream's encoding.
    """

    raw: bytes
    format: Literal["binary", "text"]
    type_oid: int


#: A column's value: the server's exact text, SQL NULL, or why there is neither.
Value: TypeAlias = str | NoValue | Undecoded | None


@dataclass(frozen=True, slots=True)
class TupleData:
    """A row's columns as sent. Source: proto.c, ``logicalrep_write_tuple()``."""

    #: One byte a column: ``n`` null, ``u`` unchanged TOAST, ``t`` text, ``b`` binary.
    kinds: bytes
    #: The bytes of each column; ``None`` for ``n`` and ``u``.
    data: tuple[bytes | None, ...]


def decode_tuple(read: Reader) -> TupleData:
    """Decode TupleData at the cursor: a column count, then each column."""
    kinds = bytearray()
    data: list[bytes | None] = []
    for _ in range(read.uint16("column count")):
        kind = read.uint8("column kind")
        if kind in (TEXT, BINARY):
            data.append(read.take(read.uint32("value length"), "value"))
        elif kind in (NULL, UNCHANGED_TOAST):
            data.append(None)
        else:
            raise read.error("a column of kind n, u, t or b", back=1)
        kinds.append(kind)
    return TupleData(bytes(kinds), tuple(data))
