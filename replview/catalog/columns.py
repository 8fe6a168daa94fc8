"""Columns and types as SQL writes them, and what a server says of its users' own types."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

FORMAT_TYPES = Query(
    name="format_types",
    about="Types with their modifiers as SQL writes them; anyone may read it.",
    sql="""
        SELECT oid, typmod, format_type(oid, typmod) AS name
          FROM unnest(%s::oid[], %s::int[]) AS wanted (oid, typmod)
    """,
)


def format_types(
    connection: Connection, wanted: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """``{(oid, typmod): name}``; oids the server does not know are left out."""
    pairs = sorted(set(wanted))
    rows = FORMAT_TYPES.rows(connection, [p[0] for p in pairs], [p[1] for p in pairs])
    return {(row["oid"], row["typmod"]): row["name"] for row in rows if row["name"] != "???"}


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


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column of a table."""

    name: str
    type_name: str


def read_columns(connection: Connection, oids: Iterable[int]) -> dict[int, list[ColumnFacts]]:
    """``{table's oid: columns in their order}``."""
    found: dict[int, list[ColumnFacts]] = {}
    for row in TABLE_COLUMNS.rows(connection, list(oids)):
        found.setdefault(row["oid"], []).append(ColumnFacts(row["name"], row["type_name"]))
    return found


Kind = Literal["enum", "domain", "array", "composite", "range", "multirange"]

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


@dataclass(frozen=True, slots=True)
class UserTypeFacts:
    """One type of the database."""

    oid: int
    kind: Kind
    #: What a domain, array or range is over; 0 for the others.
    over_oid: int


def read_user_types(connection: Connection) -> list[UserTypeFacts]:
    """All types that are not built in; empty before 14, where no stream is binary."""
    if connection.info.server_version < 140000:
        return []
    rows = USER_TYPES.rows(connection)
    return [UserTypeFacts(**row) for row in rows if row["kind"] is not None]
