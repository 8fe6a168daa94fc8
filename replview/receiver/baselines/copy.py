"""Rows of ``COPY … TO STDOUT`` in text format → the values a stream would have brought.

Source: PostgreSQL documentation, COPY, "Text Format". In every encoding that we ask for, a byte
below 128 is that ASCII character.
"""

import re

from decoder.tuples import Value
from decoder.values import ValueDecoder

_ESCAPES = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
}
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_NULL = b"\\N"


class RowParser:
    """Parses the rows of one table."""

    def __init__(self, type_oids: tuple[int, ...], encoding: str) -> None:
        """``encoding`` is Python's name of the session's."""
        self._type_oids = type_oids
        self._encoding = encoding
        self._values = ValueDecoder(encoding)

    def parse(self, line: bytes) -> list[Value]:
        """The values of one line, in column order. Raises ``ValueError`` if there are others."""
        if not self._type_oids:
            return []
        line = line[:-1]  # its line feed
        if b"\\" not in line:
            try:
                values: list[Value] = list(line.decode(self._encoding).split("\t"))
            except UnicodeError:
                values = self._one_by_one(line)
        else:
            values = self._one_by_one(line)
        if len(values) != len(self._type_oids):
            raise ValueError(f"{len(values)} values in a row of {len(self._type_oids)} columns")
        return values

    def _one_by_one(self, line: bytes) -> list[Value]:
        fields = line.split(b"\t")
        return [
            None if field == _NULL else self._values.text(_plain(field), oid)
            for field, oid in zip(fields, self._type_oids, strict=True)
        ]


def _plain(field: bytes) -> bytes:
    """A value without COPY's escapes."""
    if b"\\" not in field:
        return field
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), field)
