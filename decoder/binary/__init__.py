"""This package turns binary-format values into exactly the text that text mode sends.

The text is that of a session with ``datestyle=ISO``, ``intervalstyle=postgres``,
``extra_float_digits=3``, ``bytea_output=hex`` and ``timezone=UTC``. ``NOT_DECODED``
lists the types that cannot be decoded, whose values stay bytes.

Source: PostgreSQL, each type's ``…_send()`` and ``…_out()`` function.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from decoder.binary import catalog
from decoder.binary.catalog import NOT_DECODED
from decoder.binary.containers import (
    Unknown,
    array_text,
    multirange_text,
    range_text,
    record_text,
    tsquery_text,
    tsvector_text,
    vector_text,
)
from decoder.reader import ProtocolError

__all__ = ["NOT_DECODED", "BinaryDecoder", "UserType"]

_Decode: TypeAlias = Callable[[bytes], str]

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class UserType:
    """The definition in ``pg_type`` of a type that is not built in.

    An array or composite value names the types inside it. For a domain, range or
    multirange the caller must give ``over_oid``.
    """

    kind: Literal["enum", "domain", "array", "composite", "range", "multirange"]
    #: The base type of a domain, or the subtype of a range or multirange.
    over_oid: int | None = None


class BinaryDecoder:
    """A decoder of binary values, chosen by type oid."""

    def __init__(
        self, encoding: str = "utf-8", user_types: Mapping[int, UserType] | None = None
    ) -> None:
        self._encoding = encoding
        self._depth = 0
        self._known: dict[int, _Decode] = {}
        self._by_name: dict[str, int] = {}
        self._learn_built_in()
        for oid, user_type in (user_types or {}).items():
            self._learn(oid, user_type)

    def text(self, type_oid: int, raw: bytes) -> str | None:
        """Return the value as text, or ``None`` if its type, or one inside it, is not decodable.

        Also ``None`` if the bytes are not a value of that type: the caller keeps the bytes,
        and the stream goes on.
        """
        self._depth = 0
        try:
            return self._text(type_oid, raw)
        except (Unknown, ProtocolError, ValueError, IndexError, struct.error, OverflowError):
            return None

    def name_type(self, type_oid: int, namespace: str, name: str) -> None:
        """Remember the type of a domain: a Type message carries the name of its base type."""
        base = self._by_name.get(name)
        if namespace == "pg_catalog" and base is not None and type_oid not in self._known:
            self._known[type_oid] = self._known[base]

    def _text(self, type_oid: int, raw: bytes) -> str:
        decode = self._known.get(type_oid)
        if decode is None or self._depth > _MAX_DEPTH:
            raise Unknown
        self._depth += 1
        text = decode(raw)
        self._depth -= 1
        return text

    def _plain(self, raw: bytes) -> str:
        return raw.decode(self._encoding)

    def _versioned(self, raw: bytes) -> str:
        if raw[0] != 1:
            raise ValueError("format version")
        return raw[1:].decode(self._encoding)

    def _xml(self, raw: bytes) -> str:
        if raw.startswith(b"<?xml"):
            raise Unknown
        return raw.decode(self._encoding)

    def _learn(self, oid: int, user_type: UserType) -> None:
        over_oid = user_type.over_oid
        match user_type.kind:
            case "enum":
                self._known[oid] = self._plain
            case "array":
                self._known[oid] = partial(array_text, element=self._text)
            case "composite":
                self._known[oid] = partial(record_text, element=self._text)
            case "domain" if over_oid is not None:
                self._known[oid] = partial(self._text, over_oid)
            case "range" if over_oid is not None:
                self._known[oid] = partial(range_text, element=self._text, subtype_oid=over_oid)
            case "multirange" if over_oid is not None:
                self._known[oid] = partial(
                    multirange_text, element=self._text, subtype_oid=over_oid
                )
            case _:
                raise ValueError(f"type {oid}: a {user_type.kind} needs over_oid")

    def _learn_built_in(self) -> None:
        names: dict[str, tuple[int, _Decode]] = dict(catalog.SCALARS)
        for name, oid in catalog.TEXT_LIKE.items():
            names[name] = oid, self._plain
        names["xml"] = catalog.XML_OID, self._xml
        for name, oid in catalog.VERSIONED_TEXT.items():
            names[name] = oid, self._versioned
        for name, oid in catalog.VECTORS.items():
            names[name] = oid, partial(vector_text, element=self._text)
        search = {"tsvector": tsvector_text, "tsquery": tsquery_text}
        for name, oid in catalog.TEXT_SEARCH.items():
            names[name] = oid, partial(search[name], encoding=self._encoding)
        self._by_name = {name: oid for name, (oid, _) in names.items()}
        self._known = dict(names.values())
        for kind, ranges in (("range", catalog.RANGES), ("multirange", catalog.MULTIRANGES)):
            for name, (oid, subtype) in ranges.items():
                over_oid = self._by_name[subtype]
                self._learn(oid, UserType("range" if kind == "range" else "multirange", over_oid))
                self._by_name[name] = oid
        for oid in catalog.ARRAY_OIDS:
            self._learn(oid, UserType("array"))
        self._learn(catalog.RECORD_OID, UserType("composite"))
