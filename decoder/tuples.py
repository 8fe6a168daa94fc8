"""TupleData: one row as the wire gives it, and the values it turns into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from decoder.reader import Reader

if TYPE_CHECKING:
    from decoder.messages import Relation
    from decoder.values import ValueDecoder

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


def tuple_values(row: TupleData, relation: Relation, values: ValueDecoder) -> list[Value]:
    """A row's values in column order. It has as many columns as ``relation``."""
    result: list[Value] = []
    for kind, raw, column in zip(row.kinds, row.data, relation.columns, strict=True):
        if raw is None:
            result.append(None if kind == NULL else UNCHANGED)
        elif kind == TEXT:
            result.append(values.text(raw, column.type_oid))
        else:
            result.append(values.binary(raw, column.type_oid))
    return result


def leave_out_non_key(values: list[Value], relation: Relation) -> None:
    """In a key tuple, the NULLs of columns outside the key mean "not sent"."""
    for index, column in enumerate(relation.columns):
        if values[index] is None and not column.is_key:
            values[index] = NOT_SENT
