"""Publications of a database and the tables they publish."""

from dataclasses import dataclass, field
from typing import Any

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
