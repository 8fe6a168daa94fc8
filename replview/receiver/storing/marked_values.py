"""Values that are not plain text: how the record marks them (see ``store.models.Change``)."""

import base64
from typing import Any

import orjson

from decoder.tuples import Undecoded

#: Stands in for a value that must not be kept: written as it is, without a call for each.
MASKED = orjson.Fragment(b'{"$masked":true}')


class Aside:
    """Stands in for a value kept in ``large_value``."""

    __slots__ = ("characters",)

    def __init__(self, characters: int) -> None:
        self.characters = characters


def as_json(value: Any) -> dict[str, object]:
    """orjson's ``default``: the marked form of a value that is not plain text."""
    if isinstance(value, Undecoded):
        name = "$binary" if value.format == "binary" else "$bytes"
        return {name: base64.b64encode(value.raw).decode("ascii"), "$type": value.type_oid}
    if isinstance(value, Aside):
        return {"$aside": value.characters}
    raise TypeError(f"no JSON form for {type(value).__name__}")
