"""This module turns the bytes of a row's columns into text, in the stream's encoding."""

from collections.abc import Mapping

from decoder.binary import BinaryDecoder, UserType
from decoder.messages import (
    NOT_SENT,
    NULL,
    TEXT,
    UNCHANGED,
    RelationMessage,
    TupleData,
    Undecoded,
    Value,
)


class ValueDecoder:
    """A decoder from the bytes of ``t`` and ``b`` columns to the server's text."""

    __slots__ = ("_binary", "ascii_is_plain", "encoding")

    def __init__(
        self,
        encoding: str = "utf-8",
        *,
        binary: bool = False,
        user_types: Mapping[int, UserType] | None = None,
    ) -> None:
        """Take the encoding of the stream and the description of types that are not built in.

        ``encoding`` is Python's name for the stream's ``client_encoding``. ``binary`` is
        true when the stream has binary values, which are then decoded. Raises
        ``LookupError`` for an encoding that Python does not know.
        """
        self.encoding = encoding
        self._binary = BinaryDecoder(encoding, user_types) if binary else None
        ascii_bytes = bytes(range(128))
        #: True when ASCII bytes mean themselves, so that ASCII text can skip the codec.
        #: In shift_jis_2004 they do not: a backslash byte is a yen sign.
        self.ascii_is_plain = ascii_bytes.decode(encoding, "replace") == ascii_bytes.decode("ascii")

    def text(self, raw: bytes, type_oid: int) -> str | Undecoded:
        """Return a text-format value, or ``Undecoded`` if its bytes are invalid in the encoding."""
        try:
            return raw.decode(self.encoding)
        except UnicodeError:
            return Undecoded(raw, "text", type_oid)

    def binary(self, raw: bytes, type_oid: int) -> str | Undecoded:
        """Return a binary-format value as text mode sends it, or ``Undecoded`` if unknown."""
        text = None if self._binary is None else self._binary.text(type_oid, raw)
        return Undecoded(raw, "binary", type_oid) if text is None else text

    def name_type(self, type_oid: int, namespace: str, name: str) -> None:
        """Remember the base type of a domain, which a Type message names."""
        if self._binary is not None:
            self._binary.name_type(type_oid, namespace, name)


def tuple_values(row: TupleData, relation: RelationMessage, values: ValueDecoder) -> list[Value]:
    """Return a row's values in column order. It must have as many columns as ``relation``."""
    result: list[Value] = []
    for kind, raw, column in zip(row.kinds, row.data, relation.columns, strict=True):
        if raw is None:
            result.append(None if kind == NULL else UNCHANGED)
        elif kind == TEXT:
            result.append(values.text(raw, column.type_oid))
        else:
            result.append(values.binary(raw, column.type_oid))
    return result


def leave_out_non_key(values: list[Value], relation: RelationMessage) -> None:
    """Replace the NULLs of columns outside the key of a key tuple by ``NOT_SENT``."""
    for index, column in enumerate(relation.columns):
        if values[index] is None and not column.is_key:
            values[index] = NOT_SENT
