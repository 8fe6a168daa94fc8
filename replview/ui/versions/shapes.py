"""A version of a table as far as versions are compared: its columns, names, identity and key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replview.text.type_words import FIRST_USER_OID, short_type


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a version."""

    name: str
    #: In words; empty: neither a Type message nor a catalog told its name.
    type: str
    #: (oid, typmod): what makes two types the same.
    type_id: tuple[int, int]
    #: A row is known by it.
    key: bool = False

    @property
    def custom(self) -> bool:
        """Its type is not one of PostgreSQL's own."""
        return self.type_id[0] >= FIRST_USER_OID


@dataclass(frozen=True, slots=True)
class Shape:
    """A version as far as it is compared."""

    number: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[Column, ...]
    key_columns: tuple[str, ...] = ()


def shape_of(version: Any, type_names: Mapping[int, str] | None = None) -> Shape:
    """A ``RelationVersion``; ``type_names`` by oid, for types whose name the version lacks."""
    known, key = type_names or {}, tuple(version.key_columns)
    columns = []
    for column in version.columns:
        oid = int(column.get("type_oid") or 0)
        name = column.get("type") or known.get(oid) or ""
        type_id = (oid, int(column.get("typmod") or -1)) if oid else (0, hash(name))
        columns.append(Column(column["name"], short_type(name), type_id, column["name"] in key))
    return Shape(
        version.number, version.schema, version.table, version.replica_identity, tuple(columns), key
    )
