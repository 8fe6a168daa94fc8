"""This module reads wal2json's JSON objects: columns, values, positions and messages.

Format 2 sends columns as objects, format 1 as parallel lists. Each function
takes a part of a decoded row and raises ``ProtocolError`` if it has another form.
Source: wal2json.c.
"""

from typing import Any, Final, NamedTuple

from decoder.messages import LogicalMessage, Value
from decoder.plugins.shapes import Layout, SentColumn, TableName
from decoder.plugins.wal2json_text import KIND
from decoder.reader import ProtocolError
from decoder.scalars import LSN, us_from_text

_BYTEA: Final = 17
_OIDS: Final = 2**32
_MAX_LAYOUTS: Final = 10_000


Object = dict[str, Any]
RawLayout = tuple[tuple[Any, Any, Any], ...]


class SentRow(NamedTuple):
    """The columns that a row contains, and their values."""

    layout: Layout
    values: list[Value]


class RowReader:
    """A reader of columns, which caches the layouts that many rows share."""

    def __init__(self) -> None:
        self._layouts: dict[RawLayout, Layout] = {}

    def objects(self, columns: object) -> SentRow:
        """Read ``columns`` or ``identity`` of format 2."""
        if not isinstance(columns, list):
            raise refused("a list of columns")
        try:
            raw = tuple([(c["name"], c.get("type"), c.get("typeoid")) for c in columns])
            values = [c["value"] for c in columns]
        except (AttributeError, IndexError, KeyError, TypeError):
            raise refused("columns with name and value") from None
        return self._row(raw, values)

    def lists(self, part: Object, prefix: str) -> SentRow:
        """Read format 1's ``columnnames`` and related lists, or ``keynames`` and related lists."""
        names = part.get(prefix + "names")
        values = part.get(prefix + "values")
        if not isinstance(names, list) or not isinstance(values, list):
            raise refused(f"lists {prefix}names and {prefix}values")
        no_values = [None] * len(names)
        types = part.get(prefix + "types", no_values)
        oids = part.get(prefix + "typeoids", no_values)
        try:
            raw = tuple(zip(names, types, oids, strict=True))
        except (TypeError, ValueError):
            raise refused(f"as many types as {prefix}names") from None
        if len(values) != len(raw):
            raise refused(f"as many values as {prefix}names")
        return self._row(raw, values)

    def _row(self, raw: RawLayout, values: list[Any]) -> SentRow:
        try:
            layout = self._layouts.get(raw)
        except TypeError:
            raise refused("names of columns and types as text") from None
        if layout is None:
            layout = tuple(_column(*column) for column in raw)
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts[raw] = layout
        return SentRow(
            layout, [_value(value, column) for value, column in zip(values, layout, strict=True)]
        )


def _column(name: object, type_name: object, type_oid: object) -> SentColumn:
    if not isinstance(name, str) or not isinstance(type_name, str | None):
        raise refused("names of columns and types as text")
    oid = 0 if type_oid is None else _number(type_oid)
    # Format 2 writes the unsigned oid as a signed number.
    if not -_OIDS < oid < _OIDS:
        raise refused("the oid of a type")
    return SentColumn(name, type_name, oid % _OIDS)


def _value(value: Any, column: SentColumn) -> Value:
    r"""Return the server's text: ``t`` or ``f`` for a boolean, bytea with its ``\x``."""
    if isinstance(value, str):
        is_bytea = column.type_oid == _BYTEA
        return "\\x" + value if is_bytea or (column[1:] == ("bytea", 0)) else value
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    raise refused("a value that is a text, a number, a boolean or null")


def table_of(part: Object) -> TableName:
    """Return the names of the schema and the table."""
    return text_of(part, "schema"), text_of(part, "table")


def text_of(part: Object, key: str) -> str:
    """Return the text under ``key``. Raises ``ProtocolError`` if there is none."""
    value = part.get(key)
    if not isinstance(value, str):
        raise refused(f"{key} as text")
    return value


def number_of(part: Object, key: str) -> int | None:
    """Return the number under ``key``; ``None`` where there is none."""
    value = part.get(key)
    return None if value is None else _number(value)


def lsn_of(part: Object, key: str) -> LSN | None:
    """Return the position under ``key``; ``None`` where there is none."""
    value = part.get(key)
    if value is None:
        return None
    try:
        return LSN.parse(value)
    except (AttributeError, ValueError):
        raise refused(f"{key} as a position in the WAL") from None


def time_us_of(part: Object) -> int | None:
    """Return ``timestamp`` in microseconds since 2000-01-01 UTC; ``None`` if it is missing."""
    value = part.get("timestamp")
    if value is None:
        return None
    try:
        return us_from_text(value)
    except (AttributeError, ValueError):
        raise refused("timestamp as a time") from None


def names_of(columns: object) -> tuple[str, ...]:
    """Return the column names of a primary key: format 2 lists objects, format 1 texts."""
    if not isinstance(columns, list):
        raise refused("the primary key as a list")
    listed = [column.get("name") if isinstance(column, dict) else column for column in columns]
    names = tuple(name for name in listed if isinstance(name, str))
    if len(names) != len(listed):
        raise refused("the primary key's columns by name")
    return names


def message_of(part: Object, lsn: int) -> LogicalMessage:
    """Return the message; ``lsn`` stands in where the object has no position."""
    transactional = part.get("transactional")
    if not isinstance(transactional, bool):
        raise refused("transactional as true or false")
    try:
        content = text_of(part, "content").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise refused("a content that can be encoded") from None
    return LogicalMessage(
        transactional=transactional,
        lsn=lsn_of(part, "lsn") or LSN(lsn),
        prefix=text_of(part, "prefix"),
        content=content,
    )


def refused(expected: str) -> ProtocolError:
    """Return the error for a row that is JSON, but not as wal2json writes it."""
    return ProtocolError(KIND, None, expected)


def _number(value: object) -> int:
    if isinstance(value, str) and len(value) <= 20 and value.isascii():
        digits = value.removeprefix("-")
        if digits.isdigit():
            return int(value)
    raise refused("a whole number")
