"""This module reads a table as the source's catalog has it now, which no stream contains.

It reads columns with defaults, constraints, indexes with sizes, and partitions. The catalog has no
history: none of this says how the table was.
"""

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import conninfo as libpq

from replview.catalog.connections import Connection, Query, reading
from replview.catalog.problems import explain
from replview.catalog.server import read_server_facts
from replview.catalog.tables import IDENTITIES

_KINDS = {"p": "primary key", "u": "unique", "f": "foreign key", "c": "check", "x": "exclusion",
          "n": "not null", "t": "constraint trigger"}  # fmt: skip
#: Seconds to connect, and seconds for all queries: a page waits five seconds at most.
_CONNECT_SECONDS = 2
_ANSWER_SECONDS = 3.0
#: Number of partitions that are named at most; all are counted.
LEAVES_NAMED = 200

TABLE = Query(
    name="table_now",
    about="A table by its oid: names, replica identity, size; anyone may read it.",
    sql="""
        SELECT n.nspname AS schema, c.relname AS name, c.relkind AS kind,
               c.relreplident AS identity,
               -- Before it was analyzed: -1, and before PostgreSQL 14 zero.
               CASE WHEN c.reltuples > 0 OR c.reltuples = 0
                         AND current_setting('server_version_num')::int >= 140000
                    THEN c.reltuples::bigint END AS estimated_rows,
               pg_table_size(c.oid) AS table_bytes
          FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.oid = %s AND c.relkind IN ('r', 'p')
    """,
)
COLUMNS = Query(
    name="columns_now",
    about="The columns of a table with types, defaults and what they are computed from; anyone "
    "may read it.",
    sql="""
        SELECT a.attname::text AS name, a.atttypid::bigint AS type_oid, a.atttypmod AS typmod,
               format_type(a.atttypid, a.atttypmod) AS type_name, a.attnotnull AS not_null,
               a.attidentity::text <> '' AS identity, a.attgenerated::text <> '' AS generated,
               pg_get_expr(d.adbin, d.adrelid) AS expression
          FROM pg_attribute AS a
          LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
         ORDER BY a.attnum
    """,
)
CONSTRAINTS = Query(
    name="constraints_now",
    about="The constraints of a table as SQL writes them; anyone may read it.",
    sql="""
        SELECT conname::text AS name, contype::text AS kind,
               pg_get_constraintdef(oid) AS definition, convalidated AS valid
          FROM pg_constraint WHERE conrelid = %s
         ORDER BY array_position(ARRAY['p', 'u', 'f', 'x', 'c', 't', 'n'], contype::text), conname
    """,
)
INDEXES = Query(
    name="indexes_now",
    about="The indexes of a table with their sizes; anyone may read it.",
    sql="""
        SELECT c.relname::text AS name, pg_get_indexdef(i.indexrelid) AS definition,
               pg_relation_size(i.indexrelid) AS size_bytes, i.indisprimary AS primary,
               i.indisunique AS unique, i.indisvalid AS valid, i.indisreplident AS identity
          FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
         WHERE i.indrelid = %s ORDER BY i.indisprimary DESC, c.relname
    """,
)
# pg_partition_tree() and pg_partition_ancestors() exist since 12.
ANCESTORS = Query(
    name="partition_ancestors",
    about="The partitioned tables above a partition, the nearest first; anyone may read it.",
    sql="""
        SELECT n.nspname AS schema, c.relname AS name
          FROM pg_partition_ancestors(%s::oid) WITH ORDINALITY AS a (oid, place)
          JOIN pg_class AS c ON c.oid = a.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE a.place > 1 ORDER BY a.place
    """,
)
LEAVES = Query(
    name="partition_leaves",
    about="The partitions below a table that hold rows; anyone may read it.",
    sql="""
        SELECT n.nspname AS schema, c.relname AS name, count(*) OVER () AS all_of_them
          FROM pg_partition_tree(%s::oid) AS t
          JOIN pg_class AS c ON c.oid = t.relid JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE t.isleaf AND t.level > 0 ORDER BY n.nspname, c.relname LIMIT %s
    """,
)


@dataclass(frozen=True, slots=True)
class ColumnNow:
    """A column of the table."""

    name: str
    type_oid: int
    typmod: int
    #: The result of ``format_type()``, with the modifier.
    type_name: str
    not_null: bool
    #: True for GENERATED … AS IDENTITY.
    identity: bool
    #: True for a column that ``expression`` computes from others.
    generated: bool
    #: The default, or the generation expression, as SQL.
    expression: str | None


@dataclass(frozen=True, slots=True)
class ConstraintNow:
    """A constraint of the table."""

    name: str
    #: ``primary key``, ``foreign key``, ``check`` …
    kind: str
    definition: str
    valid: bool


@dataclass(frozen=True, slots=True)
class IndexNow:
    """An index of the table."""

    name: str
    definition: str
    size_bytes: int | None
    primary: bool
    unique: bool
    valid: bool
    #: True for the index that REPLICA IDENTITY USING INDEX names.
    identity: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNow:
    """The table with its columns, constraints, indexes and partitions."""

    schema: str
    name: str
    #: True for a partitioned table, which has no rows of its own.
    partitioned: bool
    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity: str
    #: The estimate of the last ANALYZE or VACUUM; None: there was none yet.
    estimated_rows: int | None
    #: Size without indexes.
    table_bytes: int | None
    columns: tuple[ColumnNow, ...]
    constraints: tuple[ConstraintNow, ...]
    indexes: tuple[IndexNow, ...]
    #: Partitioned tables above this one, (schema, table), the root last.
    ancestors: tuple[tuple[str, str], ...] = ()
    leaves: tuple[tuple[str, str], ...] = field(default=())
    #: Number of all partitions that hold rows, named or not.
    leaf_count: int = 0

    @property
    def root(self) -> tuple[str, str] | None:
        """Return the partitioned table at the top, as (schema, table); None if not a partition."""
        return self.ancestors[-1] if self.ancestors else None


def look_at_table(conninfo: str, oid: int) -> tuple[str | None, TableNow | None]:
    """Return the source's system identifier (None: unknown) and the table, within seconds.

    Raises ``SourceProblem``.
    """
    try:
        if "connect_timeout" not in libpq.conninfo_to_dict(conninfo):
            conninfo = libpq.make_conninfo(conninfo, connect_timeout=_CONNECT_SECONDS)
    except psycopg.Error as error:
        raise explain(error, conninfo) from None
    with reading(conninfo, deadline_seconds=_ANSWER_SECONDS) as connection:
        table = read_table_now(connection, oid) if oid > 0 else None
        return read_server_facts(connection).system_identifier, table


def read_table_now(connection: Connection, oid: int) -> TableNow | None:
    """Return the table of this oid; None: it does not exist. Raises ``psycopg.Error``."""
    row = next(iter(TABLE.rows(connection, oid)), None)
    if row is None:
        return None
    leaves = _partitions(LEAVES, connection, oid, LEAVES_NAMED)
    return TableNow(
        schema=row["schema"],
        name=row["name"],
        partitioned=row["kind"] == "p",
        replica_identity=IDENTITIES[row["identity"]],
        estimated_rows=row["estimated_rows"],
        table_bytes=row["table_bytes"],
        columns=tuple(ColumnNow(**column) for column in COLUMNS.rows(connection, oid)),
        constraints=tuple(
            ConstraintNow(**constraint | {"kind": _KINDS.get(constraint["kind"], "other")})
            for constraint in CONSTRAINTS.rows(connection, oid)
        ),
        indexes=tuple(IndexNow(**index) for index in INDEXES.rows(connection, oid)),
        ancestors=_names(_partitions(ANCESTORS, connection, oid)),
        leaves=_names(leaves),
        leaf_count=leaves[0]["all_of_them"] if leaves else 0,
    )


def _partitions(query: Query, connection: Connection, *parameters: Any) -> list[dict[str, Any]]:
    """Return the rows; none where this server lacks the function."""
    try:
        return query.rows(connection, *parameters)
    except psycopg.errors.UndefinedFunction:
        return []


def _names(rows: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((row["schema"], row["name"]) for row in rows)
