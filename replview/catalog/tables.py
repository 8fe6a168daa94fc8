"""This module reads tables: whether their updates can be published, and with which identity."""

from collections.abc import Iterable
from dataclasses import dataclass

from replview.catalog.connections import Connection, Query
from replview.text.parsing import table_text

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
#: ``pg_class.relreplident`` in words.
IDENTITIES = {"d": "DEFAULT", "n": "NOTHING", "f": "FULL", "i": "INDEX"}
TABLES = Query(
    name="tables",
    about="Permanent tables of the database with replica identity and keys; anyone may read it.",
    sql="""
        SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind = 'p' AS partitioned,
               c.relreplident AS identity,
               pg_has_role(c.relowner, 'USAGE') AS owned,
               GREATEST(c.reltuples, 0)::bigint AS estimated_rows,
               NULLIF((SELECT inhparent FROM pg_inherits
                        WHERE inhrelid = c.oid AND c.relispartition), 0) AS parent,
               ARRAY(SELECT a.attname::text FROM pg_index AS i, unnest(i.indkey)
                            WITH ORDINALITY AS k (attnum, place)
                       JOIN pg_attribute AS a USING (attnum)
                      WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid
                        AND k.place <= i.indnkeyatts
                        AND a.attrelid = c.oid ORDER BY k.place) AS primary_key,
               EXISTS (SELECT FROM pg_index AS i
                        WHERE i.indrelid = c.oid AND i.indisprimary
                          AND NOT i.indimmediate) AS deferrable_key,
               ARRAY(SELECT a.attname::text FROM pg_index AS i, unnest(i.indkey)
                            WITH ORDINALITY AS k (attnum, place)
                       JOIN pg_attribute AS a USING (attnum)
                      WHERE i.indrelid = c.oid AND i.indisreplident AND i.indisvalid
                        AND k.place <= i.indnkeyatts
                        AND a.attrelid = c.oid ORDER BY k.place) AS identity_index,
               EXISTS (SELECT FROM pg_index AS i
                         JOIN pg_attribute AS a ON a.attrelid = i.indrelid
                          AND a.attnum = ANY (i.indkey)
                         JOIN pg_collation AS l ON l.oid = a.attcollation
                        WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)
                          AND to_jsonb(l) ->> 'collisdeterministic' = 'false') AS loose_key,
               ARRAY(SELECT a.attname::text FROM pg_attribute AS a
                      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                      ORDER BY a.attnum) AS columns
          FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
           AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
         ORDER BY n.nspname, c.relname
    """,
)
GENERATED = Query(
    name="generated_columns",
    about="Generated columns, which a column list may name only on 18 and later; 12 and later.",
    sql="""
        SELECT attrelid AS oid, attname::text AS name, attgenerated = 'v' AS virtual
          FROM pg_attribute
         WHERE attgenerated <> '' AND attnum > 0 AND NOT attisdropped
    """,
)
PRIMARY_KEY = Query(
    name="primary_key_columns",
    about="The columns of a table's primary key in their order, and the transactions that made it, "
    "that created the table, and that follows all that ended; anyone may read it.",
    sql="""
        SELECT a.attname::text AS name, o.xmin::text::bigint AS xid,
               s.xmin::text::bigint AS created,
               txid_snapshot_xmax(txid_current_snapshot()) AS following
          FROM pg_index AS i
         CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
          JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
          JOIN pg_constraint AS o ON o.conindid = i.indexrelid AND o.contype = 'p'
          JOIN pg_attribute AS s ON s.attrelid = i.indrelid AND s.attname = 'tableoid'
           AND s.attnum < 0
         WHERE i.indrelid = %s AND i.indisprimary AND i.indisvalid AND k.place <= i.indnkeyatts
         ORDER BY k.place
    """,
)
TYPE_NAMES = Query(
    name="type_names",
    about="Names of types as SQL writes them, qualified unless they are PostgreSQL's own.",
    sql="SELECT oid, format_type(oid, NULL) AS name FROM pg_type WHERE oid = ANY (%s)",
)


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column of a table that was looked up by name."""

    name: str
    type_oid: int
    typmod: int
    #: The result of ``format_type()``, with the modifier.
    type_name: str
    is_key: bool


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that was looked up by name, for plugins that send only the name."""

    oid: int
    columns: tuple[CatalogColumn, ...]


def read_named_table(connection: Connection, schema: str, table: str) -> NamedTable | None:
    """Return the table of this name; None where there is none."""
    rows = NAMED_TABLE.rows(connection, schema, table)
    if not rows:
        return None
    oids = [row.pop("oid") for row in rows]
    return NamedTable(
        oids[0], tuple(CatalogColumn(**row) for row in rows if row["name"] is not None)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A permanent table: ordinary, partitioned, or a partition."""

    oid: int
    schema: str
    name: str
    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity: str
    primary_key: tuple[str, ...]
    #: True if the primary key is DEFERRABLE, and so cannot be a replica identity.
    deferrable_key: bool = False
    #: True if a nondeterministic collation calls different texts of a key's column equal.
    loose_key: bool = False
    #: The columns of the index that REPLICA IDENTITY USING INDEX names.
    identity_index: tuple[str, ...]
    columns: tuple[str, ...]
    #: Generated columns, which are published only on 18 and later.
    generated: frozenset[str] = frozenset()
    #: Virtual generated columns (18 and later), which are never published.
    virtual: frozenset[str] = frozenset()
    partitioned: bool = False
    #: The oid of the partitioned table that this is a partition of.
    parent: int | None = None
    #: True if the role owns the table or is a member of its owner: needed to publish it.
    owned: bool = True
    estimated_rows: int = 0

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def key(self) -> tuple[str, str]:
        """Return ``(schema, name)``."""
        return self.schema, self.name

    @property
    def text(self) -> str:
        """Return the unambiguous name that forms and requests use, and ``table_parts`` reads."""
        return table_text(self.schema, self.name)

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """Return the columns that UPDATE and DELETE are published with; empty: they cannot be."""
        match self.replica_identity:
            case "FULL":
                return self.columns
            case "INDEX":
                return self.identity_index
            case "DEFAULT":
                return () if self.deferrable_key else self.primary_key
        return ()

    @property
    def usable(self) -> bool:
        """Return whether UPDATE and DELETE still work once they are published.

        Otherwise the *application's* UPDATE fails: "does not have a replica identity and publishes
        updates". An INDEX identity whose index was dropped counts as NOTHING.
        """
        return self.replica_identity == "FULL" or bool(self.identity_columns)


def read_tables(connection: Connection) -> list[TableFacts]:
    """Return all permanent tables outside the system's schemas, and partitions, by name."""
    generated: dict[int, set[str]] = {}
    virtual: dict[int, set[str]] = {}
    if connection.info.server_version >= 120000:
        for row in GENERATED.rows(connection):
            generated.setdefault(row["oid"], set()).add(row["name"])
            if row["virtual"]:
                virtual.setdefault(row["oid"], set()).add(row["name"])
    return [
        TableFacts(
            replica_identity=IDENTITIES[row.pop("identity")],
            primary_key=tuple(row.pop("primary_key")),
            identity_index=tuple(row.pop("identity_index")),
            columns=tuple(row.pop("columns")),
            generated=frozenset(generated.get(row["oid"], ())),
            virtual=frozenset(virtual.get(row["oid"], ())),
            **row,
        )
        for row in TABLES.rows(connection)
    ]


def leaves_of(table: TableFacts, tables: Iterable[TableFacts]) -> list[TableFacts]:
    """Return all partitions below a table, at every level; empty if it is not partitioned."""
    if not table.partitioned:
        return []
    all_tables = list(tables)
    partitions: list[TableFacts] = []
    parents = {table.oid}
    while children := [candidate for candidate in all_tables if candidate.parent in parents]:
        partitions += children
        parents = {candidate.oid for candidate in children}
    return partitions


def primary_key_columns(connection: Connection, relation_oid: int) -> list[str]:
    """Return the primary key of a table, which the stream lacks under FULL; empty without one."""
    return [row["name"] for row in PRIMARY_KEY.rows(connection, relation_oid)]


def type_names(connection: Connection, oids: Iterable[int]) -> dict[int, str]:
    """Return ``{oid: name}`` as SQL writes types; oids the server does not know are left out."""
    return {row["oid"]: row["name"] for row in TYPE_NAMES.rows(connection, list(oids))}
