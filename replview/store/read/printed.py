"""The type of a column as this server knows it; a value of it as somebody types it, and as
PostgreSQL prints it: the record has the latter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from replview.store.read.session import ReadSession
from replview.store.read.sql_text import base_type

#: Types below this identifier (FirstGenbkiObjectId) are the same on every server.
FIRST_OWN_OID = 10000
#: What their values mean, only their own server knows: names of its objects and roles, its money.
_OF_ITS_SERVER = re.compile(r"_?(reg.*|money|aclitem)")

_TYPE = """
    SELECT typname::text, format_type(oid, %(typmod)s), typcollation <> 0, typname ~ '^_',
        typname = 'varchar' OR EXISTS (SELECT FROM pg_opclass o
            WHERE o.opcintype = pg_type.oid AND o.opcdefault AND o.opcmethod = 403)
    FROM pg_type WHERE oid < 10000 AND oid = CASE
        WHEN %(array)s THEN (SELECT typarray FROM pg_type WHERE oid = %(oid)s)
        WHEN %(oid)s = 0 THEN (SELECT oid FROM pg_type
                               WHERE oid < 10000 AND format_type(oid, NULL) = %(name)s)
        ELSE %(oid)s END
"""


class NotOfTypeError(ValueError):
    """What was typed is no value of the column's type; ``type_name`` is that."""

    def __init__(self, type_name: str) -> None:
        super().__init__(f"no value of type {type_name}")
        self.type_name = type_name


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type whose values this server can compare."""

    #: For a cast that neither cuts nor rounds: ``pg_catalog."numeric"``.
    sql: str
    #: With its length or scale, as SQL writes it: ``numeric(10,2)``.
    full: str
    #: Its values are ordered by a collation.
    collatable: bool = False
    is_array: bool = False
    #: It surely has all operators: there is a B-tree's order of it.
    ordered: bool = False
    #: Compared without regard to case (the type citext).
    caseless: bool = False
    #: Of an enum, in their order; else None.
    labels: tuple[str, ...] | None = None


def type_of(session: ReadSession, column: Mapping[str, Any]) -> ColumnType | None:
    """The type of a column (as a version's ``columns`` has it), or what a type of its source's own
    is made of; None where this server cannot compare its values. Where no type is recorded, text.
    """
    oid, typmod = int(column.get("type_oid") or 0), column.get("typmod")
    name, is_array = base_type(column.get("type")) or "text", False
    if oid >= FIRST_OWN_OID:
        base = column.get("base")
        if base is None:
            return None
        oid, is_array, typmod = int(base["oid"]), bool(base["array"]), None
        if base["labels"] is not None:
            return (
                None
                if is_array
                else ColumnType("text", name, ordered=True, labels=tuple(base["labels"]))
            )
        if base["name"] == "citext" and not is_array:
            return ColumnType("text", name, collatable=True, ordered=True, caseless=True)
    values = {"oid": oid, "typmod": -1 if typmod is None else int(typmod), "array": is_array,
              "name": name}  # fmt: skip
    found = session.rows(_TYPE, values)
    if not found or _OF_ITS_SERVER.fullmatch(found[0][0]):
        return None
    return ColumnType(f'pg_catalog."{found[0][0]}"', *found[0][1:])


def as_printed(session: ReadSession, column: Mapping[str, Any], value: str) -> str:
    """The value as the server prints one of the column's type: ``2026-1-2`` as ``2026-01-02``.

    What is no built-in type is left as it is: the store does not know it. ``column``: as a
    version's ``columns`` has it. Raises ``NotOfTypeError``.
    """
    own = not 0 < int(column.get("type_oid") or 0) < FIRST_OWN_OID
    kind = None if own else type_of(session, column)
    if kind is None:
        return value
    # A cast to a length cuts or rounds: what is not the same afterwards is no value of the type.
    whole = column.get("typmod") in (None, -1)
    same = "TRUE" if whole else f"typed.value::{kind.sql} = typed.value::{kind.full}"
    made = f"CASE WHEN {same} THEN format('%%s', typed.value::{kind.full}) END"
    return checked(session, kind.full, made, value)


def checked(session: ReadSession, type_name: str, made: str, value: str) -> str:
    """``made`` (SQL for a text, an expression over ``typed.value``, cast to this type) of what was
    typed. Raises ``NotOfTypeError``; no error of the server's holds the value from version 16 on.
    """
    typed = "FROM (SELECT %s::text AS value OFFSET 0) AS typed"
    try:
        if session.server_version >= 160000:
            valid = f"CASE WHEN pg_input_is_valid(typed.value, '{type_name}') THEN {made} END"
            found = session.rows(f"SELECT {valid} {typed}", [value])[0][0]
        else:
            with session.savepoint():
                found = session.rows(f"SELECT {made} {typed}", [value])[0][0]
    except (psycopg.DataError, session.data_error):
        found = None
    if found is None:
        raise NotOfTypeError(type_name)
    return str(found)
