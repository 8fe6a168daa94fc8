"""This module reads a row of wal2json as JSON, and repairs rows that are not valid JSON.

The plugin writes the name of a type that begins
with a quote as it is, ``"type":"Odd schema"."mood"``, unless it is an array type.
Version 2.5 also begins the list of a message outside any transaction with a comma
if the transaction before it had changes: ``{"change":[,{"kind":"message"``.

Source: wal2json.c, ``pg_decode_write_tuple()``, ``tuple_to_stringinfo()`` and
``pg_decode_message_v1()``.
"""

import json
from collections.abc import Iterator
from typing import Final, NoReturn

from decoder.reader import ProtocolError

KIND: Final = "Wal2Json"
#: The key of one type's name, and the keys of lists of type names.
_TYPE: Final = "type"
_TYPES: Final = frozenset(("columntypes", "keytypes", "pktypes"))
_SPACE: Final = " \t\n"
_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyz_0123456789")


def _refuse_constant(word: str) -> NoReturn:
    # NaN and Infinity are not JSON, and wal2json writes null for them.
    raise ValueError(word)


_decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_constant)


def read_object(text: str) -> dict[str, object]:
    """Return the object in ``text``, numbers as ``str``. Raises ``ProtocolError`` if none."""
    try:
        try:
            value = _decoder.decode(text)
        except json.JSONDecodeError:
            value = _decoder.decode(_repair(text))
    except json.JSONDecodeError as error:
        raise ProtocolError(KIND, error.pos, "JSON") from None
    except (ValueError, RecursionError):
        raise ProtocolError(KIND, None, "JSON") from None
    if not isinstance(value, dict):
        raise ProtocolError(KIND, 0, "an object")
    return value


def as_written(type_name: str) -> str:
    """Return ``format_type()``'s name of a type as it is read back from a row.

    A name that is all in quotes loses them: the plugin does not escape its quotes, so they are
    read as JSON's own quotes where that is valid JSON.
    """
    if not type_name.startswith('"') or type_name.endswith("]"):
        return type_name
    try:
        value = _decoder.decode(type_name)
    except ValueError:
        return type_name
    return value if isinstance(value, str) else type_name


def _repair(text: str) -> str:
    """Return ``text`` with the known mistakes repaired. Raises ``ValueError`` for others."""
    pieces: list[str] = []
    copied_until = 0
    at = text.find('"')
    while at >= 0:
        string, at = _decoder.raw_decode(text, at)
        at = _after_space(text, at)
        if text[at : at + 1] == ":":
            at = _after_space(text, at + 1)
            for start, end, put in _repairs_after(text, string, at):
                pieces += (text[copied_until:start], put)
                at = copied_until = end
        at = text.find('"', at)
    pieces.append(text[copied_until:])
    return "".join(pieces)


def _repairs_after(text: str, key: str, at: int) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and replacement of each piece of ``text`` that is not JSON.

    ``at`` is the start of the value of ``key``.
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
    """Return the end of the type's name at ``at``, and whether it is a JSON string."""
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
        # The parentheses hold a modifier, as in PostGIS's geometry(Point,4326).
        end = text.find(")", end) + 1 or len(text)
    return end, False


def _quoted_end(text: str, at: int) -> int:
    """Return the position after the quoted identifier at ``at``, in which quotes are doubled."""
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
