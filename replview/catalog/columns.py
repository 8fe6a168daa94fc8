"""This module reads columns and types as SQL writes them, and user-defined types."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from replview.catalog.connections import Connection, Query

#: Types with a lower oid are the same on every server (FirstGenbkiObjectId).
FIRST_MADE_OID = 10_000
FORMAT_TYPES = Query(
    name="format_types",
    about="Types with their modifiers as SQL writes them; anyone may read it.",
    sql="""
        SELECT oid, typmod, format_type(oid, typmod) AS name
          FROM unnest(%s::oid[], %s::int[]) AS wanted (oid, typmod)
    """,
)
TABLE_COLUMNS = Query(
    name="table_columns",
    about="Columns of some tables with their types; anyone may read it.",
    sql="""
        SELECT attrelid AS oid, attname::text AS name, format_type(atttypid, atttypmod) AS type_name
          FROM pg_attribute
         WHERE attrelid = ANY (%s) AND attnum > 0 AND NOT attisdropped
         ORDER BY attrelid, attnum
    """,
)
TYPE_BASES = Query(
    name="type_bases",
    about="What domains, and arrays of types that are not built in, are over, and the labels of "
    "enums in their order; anyone may read it.",
    sql="""
        WITH RECURSIVE walk (wanted, oid, typmod, in_array) AS (
            SELECT oid, oid, -1, FALSE FROM pg_type WHERE oid = ANY (%s::oid[])
            UNION ALL
            SELECT w.wanted, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
                   CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE -1 END,
                   w.in_array OR t.typtype <> 'd'
              FROM walk AS w JOIN pg_type AS t ON t.oid = w.oid
             WHERE t.typtype = 'd' OR (t.oid >= 10000 AND t.typcategory = 'A' AND t.typelem <> 0)
        )
        SELECT w.wanted, t.oid, t.typname::text AS name, w.typmod, w.in_array AS "array",
               (SELECT array_agg(enumlabel::text ORDER BY enumsortorder)
                  FROM pg_enum WHERE enumtypid = t.oid) AS labels
          FROM walk AS w JOIN pg_type AS t ON t.oid = w.oid
         WHERE t.typtype <> 'd' AND (t.oid < 10000 OR t.typcategory <> 'A' OR t.typelem = 0)
    """,
)
USER_TYPES = Query(
    name="user_types",
    about="Types with an oid that no built-in type has, and what each is over; 14 and later.",
    sql="""
        SELECT t.oid,
               CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN 'array'
                    WHEN t.typtype = 'e' THEN 'enum' WHEN t.typtype = 'd' THEN 'domain'
                    WHEN t.typtype = 'c' THEN 'composite' WHEN t.typtype = 'r' THEN 'range'
                    WHEN t.typtype = 'm' THEN 'multirange' END AS kind,
               COALESCE(NULLIF(t.typbasetype, 0), r.rngsubtype, m.rngsubtype,
                        NULLIF(t.typelem, 0), 0) AS over_oid
          FROM pg_type AS t
          LEFT JOIN pg_range AS r ON r.rngtypid = t.oid
          LEFT JOIN pg_range AS m ON m.rngmultitypid = t.oid
         WHERE t.oid >= 16384
           AND (t.typtype IN ('e', 'd', 'c', 'r', 'm') OR t.typcategory = 'A')
    """,
)
TypeKind = Literal["enum", "domain", "array", "composite", "range", "multirange"]


def format_types(
    connection: Connection, types: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Return ``{(oid, typmod): name}``; oids that the server does not know are left out."""
    pairs = sorted(set(types))
    rows = FORMAT_TYPES.rows(connection, [p[0] for p in pairs], [p[1] for p in pairs])
    return {(row["oid"], row["typmod"]): row["name"] for row in rows if row["name"] != "???"}


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column with its type as SQL writes it."""

    name: str
    type_name: str


def read_columns(connection: Connection, oids: Iterable[int]) -> dict[int, list[ColumnFacts]]:
    """Return ``{table's oid: columns in their order}``."""
    columns: dict[int, list[ColumnFacts]] = {}
    for row in TABLE_COLUMNS.rows(connection, list(oids)):
        columns.setdefault(row["oid"], []).append(ColumnFacts(row["name"], row["type_name"]))
    return columns


def type_bases(connection: Connection, oids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the base types of types that are not built in, by oid.

    Each value has ``oid``, ``name``, ``typmod``, ``array`` (True for an array of the base type),
    and ``labels`` (the labels of an enum in their order, else None).
    """
    user_type_oids = sorted({oid for oid in oids if oid >= FIRST_MADE_OID})
    rows = TYPE_BASES.rows(connection, user_type_oids) if user_type_oids else []
    return {row.pop("wanted"): row for row in rows}


@dataclass(frozen=True, slots=True)
class UserTypeFacts:
    """A user-defined type and the type that it is based on."""

    oid: int
    kind: TypeKind
    #: The base type of a domain, array or range; 0 for the other kinds.
    over_oid: int


def read_user_types(connection: Connection) -> list[UserTypeFacts]:
    """Return all types that are not built in; empty before 14, where no stream is binary."""
    if connection.info.server_version < 140000:
        return []
    rows = USER_TYPES.rows(connection)
    return [UserTypeFacts(**row) for row in rows if row["kind"] is not None]
