"""Columns of tables with their types as SQL writes them."""

from collections.abc import Iterable
from dataclasses import dataclass

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

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
