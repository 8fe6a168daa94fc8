"""A table by its name, for output plugins that tell nothing else of it."""

from dataclasses import dataclass

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

NAMED_TABLE = Query(
    name="named_table",
    about="Columns of the table with this name, in their order, and which are of its primary key; "
    "anyone may read it.",
    sql="""
        SELECT c.oid::bigint AS oid, a.attname::text AS name, a.atttypid::bigint AS type_oid,
               a.atttypmod AS typmod, format_type(a.atttypid, a.atttypmod) AS type_name,
               coalesce(k.place <= i.indnkeyatts, false) AS is_key
          FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
          LEFT JOIN pg_attribute AS a
            ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary AND i.indisvalid
          LEFT JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, place) ON k.attnum = a.attnum
         WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
         ORDER BY a.attnum
    """,
)


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column as the catalog has it now."""

    name: str
    type_oid: int
    typmod: int
    #: As ``format_type()`` writes it, with its modifier.
    type_name: str
    is_key: bool


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as the catalog has it now."""

    oid: int
    columns: tuple[NamedColumn, ...]


def read_named_table(connection: Connection, schema: str, table: str) -> NamedTable | None:
    """The table, if there is one of this name."""
    rows = NAMED_TABLE.rows(connection, schema, table)
    if not rows:
        return None
    columns = [
        NamedColumn(row["name"], row["type_oid"], row["typmod"], row["type_name"], row["is_key"])
        for row in rows
        if row["name"] is not None
    ]
    return NamedTable(rows[0]["oid"], tuple(columns))
