"""This module reads the publications of a database, their members and what they publish."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from replview.catalog.connections import Connection, Query
from replview.catalog.naming import quoted
from replview.catalog.problems import SourceProblem

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
_MEMBERS = """
        SELECT n.nspname AS schema, c.relname AS name, {more}
          FROM pg_publication_rel AS r
          JOIN pg_publication AS p ON p.oid = r.prpubid
          JOIN pg_class AS c ON c.oid = r.prrelid
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE p.pubname = %s
         ORDER BY n.nspname, c.relname
"""
_COLUMNS_AND_FILTER = """
               CASE WHEN r.prattrs IS NULL THEN NULL ELSE
                   ARRAY(SELECT a.attname::text
                           FROM unnest(r.prattrs) WITH ORDINALITY AS k (attnum, place)
                           JOIN pg_attribute AS a ON a.attrelid = r.prrelid
                            AND a.attnum = k.attnum ORDER BY k.place) END AS columns,
               pg_get_expr(r.prqual, r.prrelid) AS row_filter"""
_TABLES = Query(
    name="publication_members",
    about="Tables named in a publication, with the columns and rows each is narrowed to (15 and "
    "later); anyone may read it.",
    sql=sql.SQL(_MEMBERS).format(more=sql.SQL(_COLUMNS_AND_FILTER)).as_string(),
)
_OLD_TABLES = Query(
    name="publication_members_14",
    about="Tables named in a publication, before 15; anyone may read it.",
    sql=sql.SQL(_MEMBERS).format(more=sql.SQL("NULL AS columns, NULL AS row_filter")).as_string(),
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
    """A table of a publication with its column list and row filter, or (if unnamed) a schema."""

    schema: str
    name: str = ""
    #: The column list, 15 and later; None: there is none, or it is unknown.
    columns: tuple[str, ...] | None = None
    row_filter: str | None = None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.name else f"all of {self.schema}"

    @property
    def key(self) -> tuple[str, str]:
        """Return ``(schema, name)``."""
        return self.schema, self.name

    def item(self) -> sql.Composed:
        """Return the member as it is written after TABLE: name, columns, row filter."""
        item = sql.SQL("{}").format(sql.Identifier(*self.key))
        if self.columns is not None:
            columns = sql.SQL(", ").join(map(sql.Identifier, self.columns))
            item += sql.SQL(" ({})").format(columns)
        if self.row_filter is not None:
            # The server has deparsed the expression, so its text is safe to repeat as SQL.
            item += sql.SQL(" WHERE ({})").format(sql.SQL(self.row_filter))
        return item


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A publication and its tables (partitions instead of their root, unless via_root)."""

    name: str
    all_tables: bool
    inserts: bool
    updates: bool
    deletes: bool
    truncates: bool
    #: publish_via_partition_root; 13 and later.
    via_root: bool | None = None
    tables: tuple[Member, ...] = field(default=())

    @property
    def needs_identity(self) -> bool:
        """Return whether the tables need a replica identity."""
        return self.updates or self.deletes

    @property
    def operations(self) -> str:
        """Return the letters of the operations that it publishes, of I, U, D and T."""
        published = (self.inserts, self.updates, self.deletes, self.truncates)
        return "".join(
            letter for letter, is_published in zip("IUDT", published, strict=True) if is_published
        )


def read_publications(connection: Connection) -> list[Publication]:
    """Return all publications of the database, by name."""
    tables: dict[str, list[Member]] = {}
    for row in PUBLICATION_TABLES.rows(connection):
        tables.setdefault(row["pubname"], []).append(
            _member(row, "schemaname", "tablename", "attnames", "rowfilter")
        )
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


def _member(row: dict[str, Any], schema: str, name: str, columns: str, rows: str) -> Member:
    """Return the member in a row; older versions have no column list and no row filter."""
    listed = row.get(columns)
    return Member(
        schema=row[schema],
        name=row[name],
        columns=None if listed is None else tuple(listed),
        row_filter=row.get(rows),
    )


def items_of(members: list[Member]) -> sql.Composed:
    """Return the members as CREATE PUBLICATION lists them after FOR: tables, then schemas."""
    tables = [member.item() for member in members if member.name]
    schemas = [sql.Identifier(member.schema) for member in members if not member.name]
    parts = [
        sql.SQL(template).format(sql.SQL(", ").join(members_sql))
        for template, members_sql in (("TABLE {}", tables), ("TABLES IN SCHEMA {}", schemas))
        if members_sql
    ]
    return sql.SQL(", ").join(parts)


def read_members(connection: Connection, publication: str) -> list[Member]:
    """Return the tables and schemas that a publication names; empty if FOR ALL TABLES.

    ``pg_publication_tables`` expands them; to alter a publication its own list is needed.
    """
    modern = connection.info.server_version >= 150000
    rows = (_TABLES if modern else _OLD_TABLES).rows(connection, publication)
    members = [_member(row, "schema", "name", "columns", "row_filter") for row in rows]
    if modern:
        members += [Member(schema=name) for name in whole_schemas(connection).get(publication, ())]
    return members


def whole_schemas(connection: Connection) -> dict[str, list[str]]:
    """Return the schemas of publications with TABLES IN SCHEMA, by publication.

    Tables that are created later in such a schema are published too.
    """
    schemas: dict[str, list[str]] = {}
    if connection.info.server_version >= 150000:
        for row in _SCHEMAS.rows(connection):
            schemas.setdefault(row["publication"], []).append(row["schema"])
    return schemas


def check_alterable(connection: Connection, names: Iterable[str]) -> None:
    """Raise ``SourceProblem`` unless this role owns all of these publications."""
    owned_names = {row["name"] for row in OWNED.rows(connection)}
    if foreign := [name for name in names if name not in owned_names]:
        cause = f"the role does not own publication {foreign[0]}, and only its owner can alter it"
        remedy = f"ALTER PUBLICATION {quoted(foreign[0])} OWNER TO the role"
        raise SourceProblem("not_owner", cause, remedy)
