"""Binary values made of values: arrays, records, ranges and text search.

The functions for arrays, records and ranges take ``element``, which turns the type oid and
bytes of one inner value into text and raises ``Unknown`` for an unknown type.

Source: PostgreSQL, arrayfuncs.c, rowtypes.c, rangetypes.c, multirangetypes.c.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from decoder.reader import Reader

# Binary tsvector and tsquery. Source: PostgreSQL, tsvector.c, tsquery.c.

_WEIGHTS = "DCBA"
_OPERAND, _OPERATOR = 1, 2
_NOT, _AND, _OR, _PHRASE = 1, 2, 3, 4
_PRIORITY = {_NOT: 4, _AND: 2, _OR: 1, _PHRASE: 3}
_MAX_DEPTH = 200
_SPACE = " \t\n\r\v\f"
_BOX = 603
_MAX_DIMENSIONS = 6
_EMPTY, _LOWER_INCLUSIVE, _UPPER_INCLUSIVE = 0x01, 0x02, 0x04
_LOWER_INFINITE, _UPPER_INFINITE = 0x08, 0x10
Element: TypeAlias = Callable[[int, bytes], str]


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def tsvector_text(raw: bytes, encoding: str) -> str:
    """Return lexemes with their positions and weights."""
    read = Reader(raw, "tsvector", start=0, encoding=encoding)
    lexemes = []
    for _ in range(read.uint32()):
        lexeme = _quoted(read.name("lexeme"))
        positions = [read.uint16() for _ in range(read.uint16())]
        marks = (f"{p & 0x3FFF}{_WEIGHTS[p >> 14].replace('D', '')}" for p in positions)
        lexemes.append(lexeme + (":" + ",".join(marks) if positions else ""))
    read.end()
    return " ".join(lexemes)


def tsquery_text(raw: bytes, encoding: str) -> str:
    """Return the text of a tree in prefix order, the right operand before the left."""
    read = Reader(raw, "tsquery", start=0, encoding=encoding)
    text = _node(read, 0, right_of_phrase=False, depth=0) if read.uint32() else ""
    read.end()
    return text


def _node(read: Reader, parent_priority: int, *, right_of_phrase: bool, depth: int) -> str:
    """Return one node in infix notation. Source: tsquery.c, ``infix()``."""
    if depth > _MAX_DEPTH:
        raise ValueError("tsquery nested too deeply")
    kind = read.uint8()
    if kind == _OPERAND:
        return _operand(read)
    operator = read.uint8()
    if kind != _OPERATOR or operator not in _PRIORITY:
        raise ValueError("tsquery item")
    priority = _PRIORITY[operator]
    parentheses = priority < parent_priority or (operator == _PHRASE and right_of_phrase)
    if operator == _NOT:
        text = "!" + _node(read, priority, right_of_phrase=False, depth=depth + 1)
    else:
        is_phrase = operator == _PHRASE
        distance = read.uint16() if is_phrase else 1
        phrase = "<->" if distance == 1 else f"<{distance}>"
        sign = {_AND: "&", _OR: "|"}.get(operator, phrase)
        right = _node(read, priority, right_of_phrase=is_phrase, depth=depth + 1)
        left = _node(read, priority, right_of_phrase=False, depth=depth + 1)
        text = f"{left} {sign} {right}"
    return f"( {text} )" if parentheses else text


def _operand(read: Reader) -> str:
    weights, prefix = read.uint8(), read.uint8()
    text = _quoted(read.name("lexeme"))
    marks = "*" if prefix else ""
    marks += "".join(_WEIGHTS[bit] for bit in (3, 2, 1, 0) if weights & 1 << bit)
    return f"{text}:{marks}" if marks else text


class Unknown(Exception):
    """The type is neither built in nor described by the caller."""


def _inner(read: Reader, element: Element, type_oid: int) -> str | None:
    size = read.int32()
    if size == -1:
        return None
    if size < 0:
        raise ValueError("value length")
    return element(type_oid, read.take(size))


def array_text(raw: bytes, element: Element) -> str:
    """Return an array in braces; the elements of ``box`` are separated by semicolons."""
    read = Reader(raw, "array", start=0)
    dimensions, flags, type_oid = read.int32(), read.int32(), read.uint32()
    if not 0 <= dimensions <= _MAX_DIMENSIONS or flags not in (0, 1):
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
    """Return an int2vector or oidvector: a one-dimensional array, written with spaces."""
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
    """Return a composite value; its binary form names the type of every field."""
    read = Reader(raw, "record", start=0)
    fields = [_inner(read, element, read.uint32()) for _ in range(read.uint32())]
    read.end()
    return "(" + ",".join("" if f is None else _field(f, '"\\(),') for f in fields) + ")"


def _field(text: str, special: str) -> str:
    if text and not any(mark in text for mark in special + _SPACE):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def range_text(raw: bytes, element: Element, subtype_oid: int) -> str:
    """Return ``empty`` or both bounds in brackets; an infinite bound is left out."""
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
    """Return the ranges of a multirange in braces, separated by commas."""
    read = Reader(raw, "multirange", start=0)
    ranges = [
        range_text(read.take(read.uint32()), element, subtype_oid) for _ in range(read.uint32())
    ]
    read.end()
    return "{" + ",".join(ranges) + "}"
