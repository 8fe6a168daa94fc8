"""This module computes what publications publish of each table: operations, columns and rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.catalog.connections import Connection
from replview.catalog.publication_paths import PublicationPaths
from replview.catalog.publications import Publication, read_publications
from replview.catalog.tables import TableFacts, read_tables

#: Number of unpublished tables whose names are kept.
MOST_UNPUBLISHED = 5000


@dataclass(slots=True)
class Published:
    """A table as a set of publications publishes it together."""

    table: TableFacts
    #: Row filters by operation (I, U, D, T): a row is published if any of them is true; an empty
    #: list publishes every row.
    filters: dict[str, list[str]] = field(default_factory=dict)
    #: The column list; None: all columns that can be published.
    columns: tuple[str, ...] | None = None
    #: ``schema.table`` of the root of a partition; None for other tables.
    root: str | None = None

    @property
    def operations(self) -> str:
        """Return the letters of the published operations, of I, U, D and T."""
        return "".join(op for op in "IUDT" if op in self.filters)

    @property
    def row_filter(self) -> str | None:
        """Return the condition on published rows; None: every row is published.

        TRUNCATE has no filter. Where operations differ, this is the filter of the first of INSERT,
        UPDATE and DELETE that has one.
        """
        for op in "IUD":
            if filters := list(dict.fromkeys(self.filters.get(op, ()))):
                return filters[0] if len(filters) == 1 else " OR ".join(f"({f})" for f in filters)
        return None

    def sent_columns(self, server_version: int) -> tuple[str, ...]:
        """Return the columns that the stream carries, in the table's order."""
        computed = self.table.generated if server_version < 180000 else frozenset()
        column_list = self.table.columns if self.columns is None else self.columns
        # Before 18 the catalog may list computed columns, which are never sent.
        return tuple(c for c in self.table.columns if c in column_list and c not in computed)

    def facts(self, server_version: int) -> dict[str, Any]:
        """Return the table in the form of ``PublicationLook.facts``."""
        sent = self.sent_columns(server_version)
        return {
            "schema": self.table.schema,
            "table": self.table.name,
            "oid": self.table.oid,
            "columns": None if sent == self.table.columns else list(sent),
            "unpublished_columns": [c for c in self.table.columns if c not in sent],
            "row_filter": self.row_filter,
            "operations": self.operations,
            "replica_identity": self.table.replica_identity,
            "primary_key": []
            if self.table.deferrable_key and self.table.replica_identity == "DEFAULT"
            else list(self.table.primary_key),
            "root": self.root,
            **({"loose_key": True} if self.table.loose_key else {}),
        }


def read_published(
    connection: Connection, publications: Sequence[str]
) -> tuple[list[Publication], dict[tuple[str, str], Published]]:
    """Return the publications of these names, and what they publish by (schema, table)."""
    chosen = [p for p in read_publications(connection) if p.name in publications]
    tables = read_tables(connection)
    return chosen, published_by(chosen, tables)


def published_by(
    publications: Iterable[Publication], tables: Sequence[TableFacts]
) -> dict[tuple[str, str], Published]:
    """Return what the publications publish together, by (schema, table)."""
    by_name = {table.key: table for table in tables}
    by_oid = {table.oid: table for table in tables}
    published_tables: dict[tuple[str, str], Published] = {}
    for publication in publications:
        for entry in publication.tables:
            table = by_name.get(entry.key)
            if table is None:
                # The table was dropped between the two queries.
                continue
            published = published_tables.setdefault(
                entry.key, Published(table, root=_root_of(table, by_oid))
            )
            if entry.columns is not None:
                published.columns = entry.columns
            _add_operations(published, publication, entry.row_filter)
    # If an ancestor of a partition is published too, changes are sent under that table's name.
    return {
        key: published
        for key, published in published_tables.items()
        if not any(
            ancestor.key in published_tables for ancestor in _ancestors(published.table, by_oid)
        )
    }


def publication_facts(
    publications: Sequence[Publication],
    published: dict[tuple[str, str], Published],
    tables: Iterable[TableFacts],
    server_version: int,
    paths: PublicationPaths | None = None,
) -> dict[str, object]:
    """Return everything in the form of ``PublicationLook.facts``.

    Without ``paths`` the parts that reveal a lapse of publication are left out.
    """
    return {
        "publications": [
            {
                "name": p.name,
                "insert": p.inserts,
                "update": p.updates,
                "delete": p.deletes,
                "truncate": p.truncates,
                "via_root": p.via_root,
                "all_tables": p.all_tables,
            }
            for p in publications
        ],
        "tables": [
            {
                **published_table.facts(server_version),
                **(paths.facts(publications, key, published_table.table.oid) if paths else {}),
            }
            for key, published_table in sorted(published.items())
        ],
        "unpublished": _unpublished(published, tables),
        **({"rows": paths.rows_of(publications)} if paths else {}),
    }


def _unpublished(
    published: dict[tuple[str, str], Published], tables: Iterable[TableFacts]
) -> list[str]:
    """Return the first tables, by name, that are published neither themselves nor by partitions."""
    through_leaves = {
        published_table.root for published_table in published.values() if published_table.root
    }
    through_root = {f"{schema}.{name}" for schema, name in published}
    by_oid = {table.oid: table for table in tables}
    names = [
        str(table)
        for table in by_oid.values()
        if str(table) not in through_root
        and str(table) not in through_leaves
        and _root_of(table, by_oid) not in through_root
    ]
    return sorted(names)[:MOST_UNPUBLISHED]


def _add_operations(
    published_table: Published, publication: Publication, row_filter: str | None
) -> None:
    """Add the operations of one more publication.

    A row is published if any publication publishes it, so that no filter wins over every filter.
    """
    for op in publication.operations:
        former = published_table.filters.get(op)
        if row_filter is None or op == "T" or former == []:
            published_table.filters[op] = []
        else:
            published_table.filters[op] = [*(former or []), row_filter]


def _ancestors(table: TableFacts, by_oid: dict[int, TableFacts]) -> Iterator[TableFacts]:
    """Yield the partitioned tables above a partition, the nearest first."""
    while table.parent is not None and table.parent in by_oid:
        table = by_oid[table.parent]
        yield table


def _root_of(table: TableFacts, by_oid: dict[int, TableFacts]) -> str | None:
    tables = list(_ancestors(table, by_oid))
    return str(tables[-1]) if tables else None
