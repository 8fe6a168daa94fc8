"""This module defines the JSON forms that stand in a row in place of a value's text."""

import base64

import orjson

from decoder.messages import Undecoded

#: Replaces a value that must not be stored; orjson copies it without a call for each.
MASKED = orjson.Fragment(b'{"$masked":true}')


class Aside:
    """A placeholder for a value that is stored in ``large_value``."""

    __slots__ = ("characters",)

    def __init__(self, characters: int) -> None:
        self.characters = characters


def as_json(value: object) -> dict[str, object]:
    """Return the marked JSON form of a value that is not plain text; orjson's ``default``."""
    if isinstance(value, Undecoded):
        name = "$binary" if value.format == "binary" else "$bytes"
        return {name: base64.b64encode(value.raw).decode("ascii"), "$type": value.type_oid}
    if isinstance(value, Aside):
        return {"$aside": value.characters}
    raise TypeError(f"no JSON form for {type(value).__name__}")
