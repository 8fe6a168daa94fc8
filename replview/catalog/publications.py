"""Publications of a database: the tables they publish, and what they were told to publish."""

from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

PUBLICATIONS = Query(
    name="publications",
    about="All publications of the database with what they publish; anyone may read it.",
    sql="SELECT * FROM pg_publication ORDER BY pubname",
)
PUBLICATION_TABLES = Query(
    name="publication_tables",
    about="Tables by publication; column lists and row filters on 15 and later.",
    sql="SELECT * FROM pg_publication_tables ORDER BY pubname, schemaname, tablename",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table in a publication, with the columns and rows it is narrowed to."""

    schema: str
    name: str
    #: 15 and later; None is unknown.
    columns: tuple[str, ...] | None = None
    row_filter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One publication and its tables (partitions instead of their root, unless via_root)."""

    name: str
    all_tables: bool
    inserts: bool
    updates: bool
    deletes: bool
    truncates: bool
    #: publish_via_partition_root; 13 and later.
    via_root: bool | None = None
    tables: tuple[PublishedTable, ...] = field(default=())

    @property
    def needs_identity(self) -> bool:
        """Whether a table in it must have a usable replica identity."""
        return self.updates or self.deletes


def read_publications(connection: Connection) -> list[Publication]:
    """All publications of the database, by name."""
    tables: dict[str, list[PublishedTable]] = {}
    for row in PUBLICATION_TABLES.rows(connection):
        tables.setdefault(row["pubname"], []).append(_table(row))
    return [
        Publication(
            name=row["pubname"],
            all_tables=row["puballtables"],
            inserts=row["pubinsert"],
            updates=row["pubupdate"],
            deletes=row["pubdelete"],
            truncates=row.get("pubtruncate", False),
            via_root=row.get("pubviaroot"),
            tables=tuple(tables.get(row["pubname"], ())),
        )
        for row in PUBLICATIONS.rows(connection)
    ]


def _table(row: dict[str, Any]) -> PublishedTable:
    columns = row.get("attnames")
    return PublishedTable(
        schema=row["schemaname"],
        name=row["tablename"],
        columns=None if columns is None else tuple(columns),
        row_filter=row.get("rowfilter"),
    )


# What a publication was told to publish: tables and schemas as they were named, not expanded.
#
# ``pg_publication_tables`` shows what comes of it; to alter a publication one must know what is
# in it.


_TABLES = Query(
    name="publication_members",
    about="Tables named in a publication, with the columns and rows each is narrowed to (15 and "
    "later); anyone may read it.",
    sql="""
        SELECT n.nspname AS schema, c.relname AS name,
               CASE WHEN r.prattrs IS NULL THEN NULL ELSE
                   ARRAY(SELECT a.attname::text
                           FROM unnest(r.prattrs) WITH ORDINALITY AS k (attnum, place)
                           JOIN pg_attribute AS a ON a.attrelid = r.prrelid
                            AND a.attnum = k.attnum ORDER BY k.place) END AS columns,
               pg_get_expr(r.prqual, r.prrelid) AS row_filter
          FROM pg_publication_rel AS r
          JOIN pg_publication AS p ON p.oid = r.prpubid
          JOIN pg_class AS c ON c.oid = r.prrelid
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE p.pubname = %s
         ORDER BY n.nspname, c.relname
    """,
)
_OLD_TABLES = Query(
    name="publication_members_14",
    about="Tables named in a publication, before 15; anyone may read it.",
    sql="""
        SELECT n.nspname AS schema, c.relname AS name, NULL AS columns, NULL AS row_filter
          FROM pg_publication_rel AS r
          JOIN pg_publication AS p ON p.oid = r.prpubid
          JOIN pg_class AS c ON c.oid = r.prrelid
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE p.pubname = %s
         ORDER BY n.nspname, c.relname
    """,
)
_SCHEMAS = Query(
    name="publication_schemas",
    about="Schemas named in publications; 15 and later, anyone may read it.",
    sql="""
        SELECT p.pubname AS publication, n.nspname AS schema
          FROM pg_publication_namespace AS s
          JOIN pg_publication AS p ON p.oid = s.pnpubid
          JOIN pg_namespace AS n ON n.oid = s.pnnspid
         ORDER BY p.pubname, n.nspname
    """,
)
OWNED = Query(
    name="owned_publications",
    about="Publications that the connected role may alter: those it owns.",
    sql="SELECT pubname AS name FROM pg_publication WHERE pg_has_role(pubowner, 'USAGE')",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One table of a publication, or (without a name) all of a schema's."""

    schema: str
    name: str | None = None
    columns: tuple[str, ...] | None = None
    row_filter: str | None = None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.name is not None else f"all of {self.schema}"

    @property
    def key(self) -> tuple[str, str]:
        """Schema and table."""
        return self.schema, self.name or ""

    def item(self) -> sql.Composed:
        """As it stands after TABLE: name, columns, rows."""
        item = sql.SQL("{}").format(sql.Identifier(self.schema, self.name or ""))
        if self.columns is not None:
            columns = sql.SQL(", ").join(map(sql.Identifier, self.columns))
            item += sql.SQL(" ({})").format(columns)
        if self.row_filter is not None:
            # The server's own text of an expression that it has checked.
            item += sql.SQL(" WHERE ({})").format(sql.SQL(self.row_filter))
        return item


def items_of(members: list[Member]) -> sql.Composed:
    """As CREATE PUBLICATION names them after FOR: tables, then schemas."""
    tables = [member.item() for member in members if member.name is not None]
    schemas = [sql.Identifier(member.schema) for member in members if member.name is None]
    parts = [
        sql.SQL(words).format(sql.SQL(", ").join(found))
        for words, found in (("TABLE {}", tables), ("TABLES IN SCHEMA {}", schemas))
        if found
    ]
    return sql.SQL(", ").join(parts)


def read_members(connection: Connection, publication: str) -> list[Member]:
    """What it was told to publish; of one FOR ALL TABLES nothing."""
    modern = connection.info.server_version >= 150000
    rows = (_TABLES if modern else _OLD_TABLES).rows(connection, publication)
    members = [
        Member(
            schema=row["schema"],
            name=row["name"],
            columns=None if row["columns"] is None else tuple(row["columns"]),
            row_filter=row["row_filter"],
        )
        for row in rows
    ]
    if modern:
        members += [Member(schema=name) for name in whole_schemas(connection).get(publication, ())]
    return members


def whole_schemas(connection: Connection) -> dict[str, list[str]]:
    """Publications TABLES IN SCHEMA, with the schemas: their later tables are in them, too."""
    found: dict[str, list[str]] = {}
    if connection.info.server_version >= 150000:
        for row in _SCHEMAS.rows(connection):
            found.setdefault(row["publication"], []).append(row["schema"])
    return found


def owned_publications(connection: Connection) -> set[str]:
    """The names of those this role may alter."""
    return {row["name"] for row in OWNED.rows(connection)}
