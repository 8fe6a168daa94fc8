"""Column types as this server knows them, and values in the text form PostgreSQL gives them.

The record holds values in that form. Equal values of some types have different texts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from replview.store.read.session import ReadSession
from replview.store.read.sql_text import base_type

#: Types below this identifier (FirstGenbkiObjectId) are the same on every server.
FIRST_OWN_OID = 10000
#: Types whose values only their own server can interpret: names of its objects and roles, money.
_SERVER_SPECIFIC = re.compile(r"_?(reg.*|money|aclitem)")
#: Types whose equal values can have different texts, and arrays of them: float4, float8, bpchar,
#: interval, numeric, jsonb, numrange, nummultirange.
_VARYING_TEXT = frozenset({700, 701, 1042, 1186, 1700, 3802, 3906, 4532,
                           1021, 1022, 1014, 1187, 1231, 3807, 3907, 6151})  # fmt: skip
_VARYING_TEXT_NAMES = re.compile(
    r"(real|double precision|character|bpchar|interval.*|numeric|jsonb|num(multi)?range)(\[\])?"
)
#: Types of ``_VARYING_TEXT`` whose modifier fixes the text of a value: bpchar and numeric.
_FIXED_BY_MODIFIER = frozenset({1042, 1014, 1700, 1231})
#: Trailing zeros that a search for a numeric adds at most.
MOST_ZEROS = 100

_TYPE = """
    SELECT oid::bigint, typname::text, format_type(oid, %(typmod)s), typcollation <> 0,
        typname ~ '^_', typname = 'varchar' OR EXISTS (SELECT FROM pg_opclass o
            WHERE o.opcintype = pg_type.oid AND o.opcdefault AND o.opcmethod = 403)
    FROM pg_type WHERE oid < 10000 AND oid = CASE
        WHEN %(array)s THEN (SELECT typarray FROM pg_type WHERE oid = %(oid)s)
        WHEN %(oid)s = 0 THEN (SELECT oid FROM pg_type
                               WHERE oid < 10000 AND format_type(oid, NULL) = %(name)s)
        ELSE %(oid)s END
"""


class NotOfTypeError(ValueError):
    """A typed value is no value of the column's type, which is ``type_name``."""

    def __init__(self, type_name: str) -> None:
        super().__init__(f"no value of type {type_name}")
        self.type_name = type_name


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type whose values this server can compare."""

    #: The type without a modifier, for casts that neither cut nor round: ``pg_catalog."numeric"``.
    sql: str
    #: The type with its modifier, as SQL writes it: ``numeric(10,2)``.
    full: str
    #: True if a collation orders its values.
    collatable: bool = False
    is_array: bool = False
    #: True if it has a B-tree operator class, and therefore all comparison operators.
    ordered: bool = False
    #: True for the type citext, which compares without regard to case.
    caseless: bool = False
    #: Labels of an enum, in order; None for any other type.
    labels: tuple[str, ...] | None = None
    #: True if equal values have equal texts.
    exact: bool = True
    #: True if ``full`` has a length, a scale or a precision.
    bound: bool = False


def type_of(session: ReadSession, column: Mapping[str, Any]) -> ColumnType | None:
    """Return the type by which values of a column compare; None: this server cannot compare them.

    ``column`` has the form of a version's ``columns``. A type of the source's own counts as its
    base type; a column without a recorded type counts as text.
    """
    oid, typmod = int(column.get("type_oid") or 0), column.get("typmod")
    name, is_array = base_type(column.get("type")) or "text", False
    if oid >= FIRST_OWN_OID:
        base = column.get("base")
        if base is None:
            return None
        oid, is_array, typmod = int(base["oid"]), bool(base["array"]), base.get("typmod")
        if base["labels"] is not None:
            return (
                None
                if is_array
                else ColumnType("text", name, ordered=True, labels=tuple(base["labels"]))
            )
        if base["name"] == "citext" and not is_array:
            return ColumnType(
                "text", name, collatable=True, ordered=True, caseless=True, exact=False
            )
    params = {"oid": oid, "typmod": -1 if typmod is None else int(typmod), "array": is_array,
              "name": name}  # fmt: skip
    rows = session.rows(_TYPE, params)
    if not rows or _SERVER_SPECIFIC.fullmatch(rows[0][1]):
        return None
    type_oid, name, full, collatable, is_array, ordered = rows[0]
    bound = params["typmod"] != -1
    return ColumnType(
        f'pg_catalog."{name}"', full, collatable, is_array, ordered,
        exact=_is_exact(type_oid, bound=bound), bound=bound,
    )  # fmt: skip


def as_printed(session: ReadSession, column: Mapping[str, Any], value: str) -> str:
    """Return the value as the server prints it for the column's type.

    For example, ``2026-1-2`` becomes ``2026-01-02``. An enum's label, and a value of a type that
    the store does not know, stay as they are. ``column`` has the form of a version's ``columns``.
    Raises ``NotOfTypeError``.
    """
    if not column.get("type_oid") and not column.get("type"):
        return value
    kind = type_of(session, column)
    return value if kind is None else _printed(session, kind, value)


def _printed(session: ReadSession, kind: ColumnType, value: str) -> str:
    if kind.labels is not None or kind.caseless:
        return value
    # A cast with a modifier cuts or rounds. A value that it changes is no value of the type.
    type_, full = sql.SQL(kind.sql), sql.SQL(kind.full)
    fits = sql.SQL("typed.value::{} = typed.value::{}").format(type_, full)
    text_sql = sql.SQL("CASE WHEN {} THEN format('%%s', typed.value::{}) END").format(
        fits if kind.bound else sql.SQL("TRUE"), full
    )
    return checked(session, kind.full, text_sql, value)


def prints_alike(column: Mapping[str, Any]) -> bool:
    """Return whether equal values of the column surely have the same text; this queries nothing."""
    oid, typmod = int(column.get("type_oid") or 0), column.get("typmod")
    if oid >= FIRST_OWN_OID:
        base = column.get("base")
        if base is None or base["labels"] is not None:
            return True
        oid, typmod = int(base["oid"]), base.get("typmod")
        if oid >= FIRST_OWN_OID:
            return str(base["name"]) != "citext"
    elif not oid:
        return not _VARYING_TEXT_NAMES.fullmatch(base_type(column.get("type")))
    return _is_exact(oid, bound=typmod not in (None, -1))


def _is_exact(oid: int, *, bound: bool) -> bool:
    """Return whether equal values of a built-in type have equal texts.

    A modifier gives all values of a column the same scale or length.
    """
    return oid not in _VARYING_TEXT or (oid in _FIXED_BY_MODIFIER and bound)


def equal_texts(
    session: ReadSession, column: Mapping[str, Any], value: str, zeros: int = MOST_ZEROS
) -> list[str] | None:
    """Return the texts of all values equal to this one; None: there are too many to list.

    A numeric has ``1.1``, ``1.10`` and so on, with up to ``zeros`` more zeros. Raises
    ``NotOfTypeError``.
    """
    kind = type_of(session, column)
    if kind is None:
        return [value]
    printed = _printed(session, kind, value)
    if kind.exact:
        return [printed]
    if kind.sql in ('pg_catalog."float4"', 'pg_catalog."float8"'):
        return ["0", "-0"] if printed in ("0", "-0") else [printed]
    if kind.sql != 'pg_catalog."numeric"':
        return None
    if not printed[-1:].isdigit():  # NaN, Infinity
        return [printed]
    integer, _, decimals = printed.partition(".")
    digits = decimals.rstrip("0")
    texts = (f"{integer}.{digits}{'0' * n}" if digits or n else integer for n in range(zeros + 1))
    return list(dict.fromkeys([printed, *texts]))


def checked(session: ReadSession, type_name: str, text_sql: sql.Composable, value: str) -> str:
    """Return the result of ``text_sql`` for a typed value, if that is valid for the type.

    ``text_sql`` is SQL for a text, over ``typed.value``. Raises ``NotOfTypeError``. From PostgreSQL
    16 on, no error message of the server contains the value.
    """
    query = sql.SQL("SELECT {} FROM (SELECT %s::text AS value OFFSET 0) AS typed")
    try:
        if session.server_version >= 160000:
            valid = sql.SQL("CASE WHEN pg_input_is_valid(typed.value, {}) THEN {} END")
            text = session.rows(query.format(valid.format(type_name, text_sql)), [value])[0][0]
        else:
            with session.savepoint():
                text = session.rows(query.format(text_sql), [value])[0][0]
    except (psycopg.DataError, session.data_error):
        text = None
    if text is None:
        raise NotOfTypeError(type_name)
    return str(text)
