"""This module reads the catalog rows that publish a table, and names each row by its identity.

An entry that was removed and made again is another row with another name. So two readings reveal a
lapse of publication between them even if they find the same publications. Source: PostgreSQL
documentation, "System Catalogs" (pg_publication, pg_publication_rel, pg_publication_namespace,
pg_inherits).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from replview.catalog.connections import Connection, Query
from replview.catalog.publications import Publication

_PUBLICATIONS = Query(
    name="publication_rows",
    about="The row of each publication, by its identity; anyone may read it.",
    sql="SELECT pubname AS name, oid::bigint AS oid, oid || ':' || xmin AS row FROM pg_publication",
)
_MEMBERS = Query(
    name="publication_member_rows",
    about="The rows that name a table in a publication, by their identity; anyone may read it.",
    sql="""
        SELECT prpubid::bigint AS publication, prrelid::bigint AS of, oid || ':' || xmin AS row,
               xmin::text::bigint AS xid
          FROM pg_publication_rel
    """,
)
_SCHEMAS = Query(
    name="publication_schema_rows",
    about="The rows that name a schema in a publication, by their identity; 15 and later, anyone "
    "may read it.",
    sql="""
        SELECT pnpubid::bigint AS publication, pnnspid::bigint AS of, oid || ':' || xmin AS row
          FROM pg_publication_namespace
    """,
)
_TABLES = Query(
    name="table_rows",
    about="For each table its schema, the transactions that created it and that put it "
    "into that schema, and the partitioned table it was attached to, by whom; anyone may read it.",
    sql="""
        SELECT c.oid::bigint AS oid, c.relnamespace::bigint AS schema,
               s.xmin::text::bigint AS created, d.xmin::text::bigint AS placed,
               i.inhparent::bigint AS parent, i.xmin::text::bigint AS attached
          FROM pg_class AS c
          JOIN pg_attribute AS s ON s.attrelid = c.oid AND s.attname = 'tableoid' AND s.attnum < 0
          LEFT JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
           AND d.objsubid = 0 AND d.refclassid = 'pg_namespace'::regclass
          LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid AND c.relispartition
         WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384
    """,
)


@dataclass(frozen=True, slots=True)
class _PathTable:
    schema: int
    created: int
    #: The transaction that put the table into its schema; None: unknown.
    placed: int | None
    #: The partitioned table above, and the transaction that attached the table.
    parent: int | None
    attached: int | None


@dataclass(slots=True)
class PublicationPaths:
    """The catalog rows by which tables are published."""

    _publications: dict[str, tuple[int, str]]
    #: ``{(publication, table): (row, transaction that wrote the row)}``.
    _members: dict[tuple[int, int], tuple[str, int]]
    #: ``{(publication, schema): row}``.
    _schemas: dict[tuple[int, int], str]
    _tables: dict[int, _PathTable]
    _parts: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for oid, table in self._tables.items():
            if table.parent is not None:
                self._parts.setdefault(table.parent, []).append(oid)

    def facts(
        self, publications: Sequence[Publication], table: tuple[str, str], oid: int
    ) -> dict[str, object]:
        """Return what shows whether a table has been published without a lapse.

        The form is that of ``PublicationLook.facts``. ``paths`` is ``[[name, operations, row filter
        or null]]``. ``created`` is the transaction that created the table. ``since_created`` is a
        list of lists of row names (see ``rows_of``): if all rows of one list existed when the table
        was created, the table has been published since then. ``parts`` is ``[[name, attached when
        it was created]]``, for a table that is published under its own name.
        """
        paths: list[list[str | None]] = []
        since_created: list[list[str]] = []
        for publication in publications:
            members = [member for member in publication.tables if member.key == table]
            for name, rows in self._paths(publication, oid) if members else ():
                paths.append([name, publication.operations, members[0].row_filter])
                since_created += [] if rows is None else [rows]
        table_row = self._tables.get(oid)
        return {
            "paths": sorted(paths, key=str),
            "created": table_row.created if table_row else None,
            "since_created": since_created,
            "parts": sorted(self._parts_of(oid)),
        }

    def exists(self, oid: int) -> bool:
        """Return whether there is a table of this oid, published or not."""
        return oid in self._tables

    def rows_of(self, publications: Sequence[Publication]) -> list[str]:
        """Return the names of rows that may publish tables that are created later."""
        publication_rows = [
            self._publications[p.name] for p in publications if p.name in self._publications
        ]
        oids = {publication_oid for publication_oid, _ in publication_rows}
        rows = [row for _, row in publication_rows]
        rows += [
            row for (publication_oid, _), row in self._schemas.items() if publication_oid in oids
        ]
        rows += [row for (publication_oid, table_oid), (row, _) in self._members.items()
                 if publication_oid in oids and table_oid in self._parts]  # fmt: skip
        return sorted(rows)

    def _paths(self, publication: Publication, oid: int) -> Iterator[tuple[str, list[str] | None]]:
        """Yield the name of each path by which a publication publishes a table, and a list of rows.

        If these rows existed when the table was created, the table has been published by this path
        since then. None: it has not.
        """
        publication_oid, row = self._publications.get(publication.name, (0, ""))
        if publication.all_tables:
            yield f"{row}/all", [row]
            return
        path, table_oid, from_birth = row, oid, True
        while (table := self._tables.get(table_oid)) is not None:
            if member := self._members.get((publication_oid, table_oid)):
                name, xid = member
                if table_oid == oid:
                    yield f"{path}/{name}", [row] if xid == table.created else None
                else:
                    yield f"{path}/{name}", [row, name] if from_birth else None
            if schema := self._schemas.get((publication_oid, table.schema)):
                schema_xid = table.placed
                is_old = from_birth and schema_xid == table.created
                yield f"{path}/{schema}:{schema_xid}", [row, schema] if is_old else None
            if table.parent is None:
                return
            path = f"{path}/{table.attached}"
            from_birth = from_birth and table.attached == table.created
            table_oid = table.parent

    def _parts_of(self, oid: int) -> Iterator[list[object]]:
        """Yield all partitions below a table, each with whether it was created as one."""
        for part in self._parts.get(oid, ()):
            table = self._tables[part]
            yield [f"{part}:{table.attached}", table.attached == table.created]
            yield from self._parts_of(part)


def read_publication_paths(connection: Connection) -> PublicationPaths:
    """Read the rows of the catalog. Raises ``psycopg.Error``."""
    modern = connection.info.server_version >= 150000
    return PublicationPaths(
        {row["name"]: (row["oid"], row["row"]) for row in _PUBLICATIONS.rows(connection)},
        {
            (row["publication"], row["of"]): (row["row"], row["xid"])
            for row in _MEMBERS.rows(connection)
        },
        {
            (row["publication"], row["of"]): row["row"]
            for row in (_SCHEMAS.rows(connection) if modern else ())
        },
        {row.pop("oid"): _PathTable(**row) for row in _TABLES.rows(connection)},
    )
