"""The text of a row of wal2json as JSON.

The plugin's JSON is not always JSON: it writes the name of a type that begins
with a quote as it is, ``"type":"Odd schema"."mood"``, unless it is an array's.
And version 2.5 begins the list of a message outside any transaction with a comma
if the transaction before it had changes: ``{"change":[,{"kind":"message"``. Such
rows are mended before they are read.

Source: wal2json.c, ``pg_decode_write_tuple()``, ``tuple_to_stringinfo()`` and
``pg_decode_message_v1()``.
"""

import json
from collections.abc import Iterator
from typing import Final, NoReturn

from decoder.reader import ProtocolError

KIND: Final = "Wal2Json"
#: Keys before one type's name, and before a list of them.
_TYPE: Final = "type"
_TYPES: Final = frozenset(("columntypes", "keytypes", "pktypes"))
_SPACE: Final = " \t\n"
_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyz_0123456789")


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
