"""Binary values made of values: arrays, records, ranges and multiranges.

Each function is given ``element``, which turns one inner value's type and bytes
into text and raises ``Unknown`` for a type nobody knows.

Source: PostgreSQL, arrayfuncs.c, rowtypes.c, rangetypes.c, multirangetypes.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from decoder.reader import Reader

Element: TypeAlias = Callable[[int, bytes], str]

_SPACE = " \t\n\r\v\f"
_BOX = 603
_MOST_DIMENSIONS = 6
_EMPTY, _LOWER_INCLUSIVE, _UPPER_INCLUSIVE = 0x01, 0x02, 0x04
_LOWER_INFINITE, _UPPER_INFINITE = 0x08, 0x10


class Unknown(Exception):
    """A type that is neither built in nor described by the caller."""


def _inner(read: Reader, element: Element, type_oid: int) -> str | None:
    size = read.int32()
    if size == -1:
        return None
    if size < 0:
        raise ValueError("value length")
    return element(type_oid, read.take(size))


def array_text(raw: bytes, element: Element) -> str:
    read = Reader(raw, "array", start=0)
    dimensions, flags, type_oid = read.int32(), read.int32(), read.uint32()
    if not 0 <= dimensions <= _MOST_DIMENSIONS or flags not in (0, 1):
        raise ValueError("array header")
    bounds = [(read.int32(), read.int32()) for _ in range(dimensions)]
    if any(size <= 0 for size, _ in bounds):
        raise ValueError("array dimension")
    if not bounds:
        read.end()
        return "{}"
    separator = ";" if type_oid == _BOX else ","

    def next_item() -> str:
        return _array_item(_inner(read, element, type_oid), separator)

    text = _array_level([size for size, _ in bounds], next_item, separator)
    read.end()
    if any(low != 1 for _, low in bounds):
        text = "".join(f"[{low}:{low + size - 1}]" for size, low in bounds) + "=" + text
    return text


def _array_level(sizes: list[int], next_item: Callable[[], str], separator: str) -> str:
    def items() -> Iterator[str]:
        for _ in range(sizes[0]):
            inner = sizes[1:]
            yield _array_level(inner, next_item, separator) if inner else next_item()

    return "{" + separator.join(items()) + "}"


def _array_item(text: str | None, separator: str) -> str:
    if text is None:
        return "NULL"
    special = '"\\{}' + _SPACE + separator
    if text and text.upper() != "NULL" and not any(mark in text for mark in special):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def vector_text(raw: bytes, element: Element) -> str:
    """int2vector and oidvector: one-dimensional arrays, written with spaces."""
    read = Reader(raw, "vector", start=0)
    dimensions, _, type_oid = read.int32(), read.int32(), read.uint32()
    if dimensions not in (0, 1):
        raise ValueError("vector header")
    count = read.uint32() if dimensions else 0
    if dimensions:
        read.int32("lower bound")
    items = [_inner(read, element, type_oid) for _ in range(count)]
    read.end()
    return " ".join(item for item in items if item is not None)


def record_text(raw: bytes, element: Element) -> str:
    """A composite value; its binary form names the type of every field."""
    read = Reader(raw, "record", start=0)
    fields = [_inner(read, element, read.uint32()) for _ in range(read.uint32())]
    read.end()
    return "(" + ",".join("" if f is None else _field(f, '"\\(),') for f in fields) + ")"


def _field(text: str, special: str) -> str:
    if text and not any(mark in text for mark in special + _SPACE):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def range_text(raw: bytes, element: Element, subtype_oid: int) -> str:
    read = Reader(raw, "range", start=0)
    flags = read.uint8()
    if flags & _EMPTY:
        read.end()
        return "empty"
    lower = "" if flags & _LOWER_INFINITE else _bound(read, element, subtype_oid)
    upper = "" if flags & _UPPER_INFINITE else _bound(read, element, subtype_oid)
    read.end()
    opening = "[" if flags & _LOWER_INCLUSIVE else "("
    closing = "]" if flags & _UPPER_INCLUSIVE else ")"
    return f"{opening}{lower},{upper}{closing}"


def _bound(read: Reader, element: Element, subtype_oid: int) -> str:
    text = _inner(read, element, subtype_oid)
    if text is None:
        raise ValueError("range bound")
    return _field(text, '"\\()[],')


def multirange_text(raw: bytes, element: Element, subtype_oid: int) -> str:
    read = Reader(raw, "multirange", start=0)
    ranges = [
        range_text(read.take(read.uint32()), element, subtype_oid) for _ in range(read.uint32())
    ]
    read.end()
    return "{" + ",".join(ranges) + "}"
