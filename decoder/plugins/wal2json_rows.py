"""A row of wal2json, and what its objects say: columns, values, positions, messages.

Format 2 gives columns as objects, format 1 as parallel lists. Each function
takes a part of a decoded row and raises ``ProtocolError`` if it is of another form.

Source: wal2json.c.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, NoReturn

from decoder.messages import LogicalMessage, Value
from decoder.plugins.collecting import Layout, SentColumn, TableName
from decoder.reader import ProtocolError
from decoder.scalars import LSN, us_from_text

# The plugin's JSON is not always JSON: it writes the name of a type that begins
# with a quote as it is, ``"type":"Odd schema"."mood"``, unless it is an array's.
# And version 2.5 begins the list of a message outside any transaction with a comma
# if the transaction before it had changes: ``{"change":[,{"kind":"message"``. Such
# rows are mended before they are read.
#
# Source: wal2json.c, ``pg_decode_write_tuple()``, ``tuple_to_stringinfo()`` and
# ``pg_decode_message_v1()``.

KIND: Final = "Wal2Json"

#: Keys before one type's name, and before a list of them.
_TYPE: Final = "type"
_TYPES: Final = frozenset(("columntypes", "keytypes", "pktypes"))
_SPACE: Final = " \t\n"
_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyz_0123456789")
_BYTEA: Final = 17
_OIDS: Final = 2**32
_MOST_LAYOUTS: Final = 10_000


def _refuse_constant(word: str) -> NoReturn:
    # NaN and Infinity are no JSON, and wal2json writes null for them.
    raise ValueError(word)


_decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_constant)


def read_object(text: str) -> dict[str, object]:
    """The object that ``text`` is; numbers come as ``str``. Raises ``ProtocolError`` if none."""
    try:
        try:
            value = _decoder.decode(text)
        except json.JSONDecodeError:
            value = _decoder.decode(_mended(text))
    except json.JSONDecodeError as error:
        raise ProtocolError(KIND, error.pos, "JSON") from None
    except (ValueError, RecursionError):
        raise ProtocolError(KIND, None, "JSON") from None
    if not isinstance(value, dict):
        raise ProtocolError(KIND, 0, "an object")
    return value


def as_written(type_name: str) -> str:
    """``format_type()``'s name of a type, as it is read back from a row.

    Of a type in quotes these are gone: the plugin's own, unescaped, are taken
    for JSON's where they can be.
    """
    if not type_name.startswith('"') or type_name.endswith("]"):
        return type_name
    try:
        value = _decoder.decode(type_name)
    except ValueError:
        return type_name
    return value if isinstance(value, str) else type_name


def _mended(text: str) -> str:
    """``text`` made JSON, where it is not for a known reason. Raises ``ValueError``."""
    pieces: list[str] = []
    done = 0
    at = text.find('"')
    while at >= 0:
        string, at = _decoder.raw_decode(text, at)
        at = _after_space(text, at)
        if text[at : at + 1] == ":":
            at = _after_space(text, at + 1)
            for start, end, put in _wrong_after(text, string, at):
                pieces += (text[done:start], put)
                at = done = end
        at = text.find('"', at)
    pieces.append(text[done:])
    return "".join(pieces)


def _wrong_after(text: str, key: str, at: int) -> Iterator[tuple[int, int, str]]:
    """Yield start and end of each piece of ``text`` that is no JSON, and what belongs there.

    ``at``: where the value of ``key`` begins.
    """
    inside = _after_space(text, at + 1)
    if key == "change" and text[inside : inside + 1] == ",":
        yield inside, inside + 1, ""
    if key != _TYPE and (key not in _TYPES or text[at : at + 1] != "["):
        return
    at = at if key == _TYPE else inside
    while text[at : at + 1] == '"':
        end, whole = _type_end(text, at)
        yield at, end, text[at:end] if whole else json.dumps(text[at:end])
        at = _after_space(text, end)
        if key == _TYPE or text[at : at + 1] != ",":
            return
        at = _after_space(text, at + 1)


def _type_end(text: str, at: int) -> tuple[int, bool]:
    """Where the type's name at ``at`` ends, and whether it is a JSON string."""
    try:
        _, end = _decoder.raw_decode(text, at)
    except json.JSONDecodeError:
        end = -1
    if end >= 0 and text[end : end + 1] in (",", "}", "]", " ", "\t", "\n"):
        return end, True
    end = _quoted_end(text, at)
    while text[end : end + 1] == ".":
        end += 1
        if text[end : end + 1] == '"':
            end = _quoted_end(text, end)
        else:
            while end < len(text) and text[end] in _BARE:
                end += 1
    if text[end : end + 1] == "(":
        # A modifier: PostGIS's geometry(Point,4326).
        end = text.find(")", end) + 1 or len(text)
    return end, False


def _quoted_end(text: str, at: int) -> int:
    """Behind the quoted identifier at ``at``, in which quotes come doubled."""
    end = text.find('"', at + 1)
    while end >= 0 and text.startswith('"', end + 1):
        end = text.find('"', end + 2)
    if end < 0:
        raise ValueError("a name without its closing quote")
    return end + 1


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


Object = dict[str, Any]
RawLayout = tuple[tuple[Any, Any, Any], ...]


class SentRow(NamedTuple):
    """The columns that a row tells, and their values."""

    layout: Layout
    values: list[Value]


class RowReader:
    """Reads columns; remembers, over many rows, the layouts that come again and again."""

    def __init__(self) -> None:
        self._layouts: dict[RawLayout, Layout] = {}

    def objects(self, columns: object) -> SentRow:
        """Format 2's ``columns`` or ``identity``."""
        if not isinstance(columns, list):
            raise refused("a list of columns")
        try:
            raw = tuple([(c["name"], c.get("type"), c.get("typeoid")) for c in columns])
            values = [c["value"] for c in columns]
        except (AttributeError, IndexError, KeyError, TypeError):
            raise refused("columns with name and value") from None
        return self._row(raw, values)

    def lists(self, part: Object, prefix: str) -> SentRow:
        """Format 1's ``columnnames`` and its like, or ``keynames`` and its like."""
        names = part.get(prefix + "names")
        values = part.get(prefix + "values")
        if not isinstance(names, list) or not isinstance(values, list):
            raise refused(f"lists {prefix}names and {prefix}values")
        nothing = [None] * len(names)
        types = part.get(prefix + "types", nothing)
        oids = part.get(prefix + "typeoids", nothing)
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
            if len(self._layouts) >= _MOST_LAYOUTS:
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
    """The server's text: booleans are its ``t`` and ``f``, bytea has its ``\\x`` again."""
    if isinstance(value, str):
        is_bytea = column.type_oid == _BYTEA
        return "\\x" + value if is_bytea or (column[1:] == ("bytea", 0)) else value
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    raise refused("a value that is a text, a number, a boolean or null")


def table_of(part: Object) -> TableName:
    return text_of(part, "schema"), text_of(part, "table")


def text_of(part: Object, key: str) -> str:
    value = part.get(key)
    if not isinstance(value, str):
        raise refused(f"{key} as text")
    return value


def number_of(part: Object, key: str) -> int | None:
    """The number under ``key``; ``None`` where there is none."""
    value = part.get(key)
    return None if value is None else _number(value)


def lsn_of(part: Object, key: str) -> LSN | None:
    """The position under ``key``; ``None`` where there is none."""
    value = part.get(key)
    if value is None:
        return None
    try:
        return LSN.parse(value)
    except (AttributeError, ValueError):
        raise refused(f"{key} as a position in the WAL") from None


def time_us_of(part: Object) -> int | None:
    """``timestamp`` in microseconds since 2000-01-01 UTC; ``None`` where there is none."""
    value = part.get("timestamp")
    if value is None:
        return None
    try:
        return us_from_text(value)
    except (AttributeError, ValueError):
        raise refused("timestamp as a time") from None


def names_of(columns: object) -> tuple[str, ...]:
    """The names of a primary key: a list of objects in format 2, of texts in format 1."""
    if not isinstance(columns, list):
        raise refused("the primary key as a list")
    listed = [column.get("name") if isinstance(column, dict) else column for column in columns]
    names = tuple(name for name in listed if isinstance(name, str))
    if len(names) != len(listed):
        raise refused("the primary key's columns by name")
    return names


def message_of(part: Object, lsn: int) -> LogicalMessage:
    """The message; ``lsn`` where it does not tell its own."""
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
    """The error for a row that is JSON, but not as wal2json writes it."""
    return ProtocolError(KIND, None, expected)


def _number(value: object) -> int:
    if isinstance(value, str) and len(value) <= 20 and value.isascii():
        digits = value.removeprefix("-")
        if digits.isdigit():
            return int(value)
    raise refused("a whole number")
