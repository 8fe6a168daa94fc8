"""The tables of one look at a slot's publications, to be asked for by oid or name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table as the source's catalog had it at the look."""

    schema: str
    table: str
    oid: int | None
    #: None: all of them.
    columns: tuple[str, ...] | None
    unpublished_columns: tuple[str, ...]
    row_filter: str
    #: Of I, U, D, T.
    operations: str
    replica_identity: str
    primary_key: tuple[str, ...]
    #: ``public.events``: the partitioned table it belongs to; empty: none.
    root: str


@dataclass(slots=True)
class PublishedTables:
    """All of them."""

    tables: list[PublishedTable] = field(default_factory=list)
    by_oid: dict[int, PublishedTable] = field(default_factory=dict)
    by_name: dict[tuple[str, str], PublishedTable] = field(default_factory=dict)
    #: Partitions are published as changes of their root.
    via_root: bool = False
    #: Tables of the source that are in none of the publications.
    unpublished: frozenset[str] = frozenset()

    def find(self, oid: int, schema: str, table: str) -> PublishedTable | None:
        """A table, also where it was renamed since."""
        return self.by_oid.get(oid) or self.by_name.get((schema, table))

    def standing(self, oid: int, schema: str, table: str, *, changed: bool) -> str:
        """Why a table that was seen is not among the published ones; empty: it is.

        Of a partition whose changes come as its root's, the stream names the shape all the same.
        """
        if self.find(oid, schema, table) is not None:
            return ""
        if f"{schema}.{table}" in self.unpublished:
            return "not published now"
        return "comes as its root" if self.via_root and not changed else "not on the source now"

    def leaves_of(self, name: str) -> list[PublishedTable]:
        """The published partitions of ``schema.table``."""
        return [table for table in self.tables if table.root == name]


def tables_of_look(facts: Mapping[str, Any]) -> PublishedTables:
    """What ``PublicationLook.facts`` says; what is missing there is unknown."""
    found = PublishedTables()
    found.via_root = any(p.get("via_root") for p in facts.get("publications") or ())
    found.unpublished = frozenset(facts.get("unpublished") or ())
    for told in facts.get("tables") or ():
        columns = told.get("columns")
        table = PublishedTable(
            schema=told["schema"],
            table=told["table"],
            oid=told.get("oid"),
            columns=None if columns is None else tuple(columns),
            unpublished_columns=tuple(told.get("unpublished_columns") or ()),
            row_filter=told.get("row_filter") or "",
            operations=told.get("operations") or "",
            replica_identity=told.get("replica_identity") or "",
            primary_key=tuple(told.get("primary_key") or ()),
            root=told.get("root") or "",
        )
        found.tables.append(table)
        found.by_name[table.schema, table.table] = table
        if table.oid is not None:
            found.by_oid[table.oid] = table
    return found
