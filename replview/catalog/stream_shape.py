"""This module reads a table as pgoutput's Relation message describes it, and changes to its rows.

It says which transaction made each column, and whether the table was rewritten.
See *How altered tables and publications are noticed* in docs/architecture.md.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from replview.catalog.connections import Connection, Query
from replview.catalog.tables import IDENTITIES

STREAM_SHAPE = Query(
    name="stream_shape",
    about="Columns of a table in their order, with the flag of replica identity as a Relation "
    "message gives it (proto.c, logicalrep_write_attrs()); anyone may read it.",
    sql="""
        SELECT c.relreplident AS identity, c.relkind AS kind, a.attname::text AS name,
               a.atttypid::bigint AS type_oid, a.atttypmod AS typmod,
               c.relreplident = 'f' OR EXISTS (
                   SELECT FROM pg_index AS i,
                          unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
                    WHERE i.indrelid = c.oid AND k.attnum = a.attnum
                      AND k.place <= i.indnkeyatts AND i.indisvalid AND i.indimmediate
                      AND CASE c.relreplident WHEN 'd' THEN i.indisprimary
                               WHEN 'i' THEN i.indisreplident ELSE false END) AS is_key
          FROM pg_class AS c
          LEFT JOIN pg_attribute AS a
            ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE c.oid = %s
         ORDER BY a.attnum
    """,
)
COLUMNS_MADE = Query(
    name="columns_made",
    about="The columns of some tables: number, the transaction that altered it last, whether it is "
    "generated, and the file of the table's rows (0: it has none of its own); the transaction that "
    "created the table, which is that of its system columns, and the one that follows all that "
    "ended; anyone may read it.",
    sql="""
        SELECT a.attrelid::bigint AS oid, a.attname::text AS name, a.attnum::int AS number,
               a.xmin::text::bigint AS xid, a.attgenerated <> '' AS generated,
               c.relfilenode::bigint AS file, s.xmin::text::bigint AS created,
               txid_snapshot_xmax(txid_current_snapshot()) AS following
          FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
          JOIN pg_attribute AS s ON s.attrelid = c.oid AND s.attname = 'tableoid' AND s.attnum < 0
         WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
    """,
)
COLUMN_MARKS = Query(
    name="column_marks",
    about="A mark of each of some tables that is another one after any of its columns was added, "
    "dropped, renamed or rewritten, or its rows got another file; anyone may read it.",
    sql="""
        SELECT c.oid::bigint AS oid,
               c.relfilenode || md5(string_agg(concat_ws(' ', a.attnum, a.xmin, a.attisdropped),
                                               ',' ORDER BY a.attnum)) AS mark
          FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
         WHERE c.oid = ANY(%s::oid[]) GROUP BY c.oid
    """,
)
TABLE_HELD = Query(
    name="table_held",
    about="Whether a transaction that is in progress, or prepared, has the lock on a table that "
    "ALTER TABLE takes (it is kept until after what it did can be seen); on a standby, whether any "
    "has it; anyone may read it.",
    sql="""
        SELECT EXISTS (
            SELECT FROM pg_locks AS l
             WHERE l.locktype = 'relation' AND l.relation = %s AND l.granted
               AND l.mode = 'AccessExclusiveLock'
               AND (pg_is_in_recovery() OR EXISTS (
                   SELECT FROM pg_locks AS t
                    WHERE t.virtualtransaction = l.virtualtransaction
                      AND t.locktype = 'transactionid' AND t.transactionid = %s::text::xid))
        ) AS held
    """,
)
# pg_class and pg_inherits are read with our snapshot, the functions return the present state.
MOVED = Query(
    name="rows_moved",
    about="Whether a table, or a part of it, was rewritten, truncated, attached or detached since "
    "our snapshot was taken; anyone may read it.",
    sql="""
        WITH RECURSIVE part (oid) AS (
            SELECT %s::oid
            UNION SELECT i.inhrelid FROM pg_inherits AS i
              JOIN part ON part.oid = i.inhparent
              JOIN pg_class AS c ON c.oid = i.inhparent AND c.relkind = 'p')
        SELECT coalesce(bool_or(c.relfilenode IS DISTINCT FROM
                                coalesce(pg_relation_filenode(c.oid), 0)), true)
               OR (count(*) FILTER (WHERE c.relkind = 'p') > 0
                   AND (SELECT array_agg(oid ORDER BY oid) FROM part) IS DISTINCT FROM
                       (SELECT array_agg(relid::oid ORDER BY relid::oid)
                          FROM pg_partition_tree(%s::oid::regclass))) AS moved,
               sum(c.reltuples) FILTER (WHERE c.relkind = 'r' AND c.reltuples >= 0)::bigint
                   AS estimated_rows
          FROM part JOIN pg_class AS c ON c.oid = part.oid
    """,
)


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """A column as a Relation message describes it."""

    name: str
    type_oid: int
    typmod: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class StreamShape:
    """A table as a Relation message describes it."""

    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity: str
    partitioned: bool
    columns: tuple[StreamColumn, ...]


def read_stream_shape(connection: Connection, oid: int, sent: Sequence[str]) -> StreamShape | None:
    """Return the shape of the table with the columns ``sent``; None if it was dropped."""
    rows = STREAM_SHAPE.rows(connection, oid)
    if not rows:
        return None
    return StreamShape(
        IDENTITIES[rows[0]["identity"]],
        rows[0]["kind"] == "p",
        tuple(
            StreamColumn(row["name"], row["type_oid"], row["typmod"], row["is_key"])
            for row in rows
            if row["name"] in sent
        ),
    )


def is_later(xid: int, than: int, *, following: int) -> bool:
    """Return whether ``xid``, which has ended, was assigned after the xid ``than``.

    ``following`` is the xid after the last that has ended, which may be lower than one in progress.
    The comparison allows for xids of 32 bits that wrap.
    """
    return 0 < (xid - than) % (1 << 32) < (following - than) % (1 << 32) < 1 << 31


@dataclass(frozen=True, slots=True)
class ColumnsMade:
    """The origin of a table's columns, as far as its catalog shows it."""

    #: ``{name: [number, transaction, file]}``. These differ between a column and one of the same
    #: name that it replaced, and change when the table is rewritten.
    columns: dict[str, list[int]]
    #: Numbers of generated columns, which the stream may leave out.
    generated: frozenset[int]
    #: The transaction (or subtransaction) that created the table, and ``is_later``'s ``following``.
    created: int
    following: int
    #: True if a transaction in progress has the table locked and may have altered it unseen.
    held: bool


def columns_made(connection: Connection, oid: int, by: int | None) -> ColumnsMade:
    """Read the origin of a table's columns, and whether the transaction ``by`` has it locked.

    If the table does not exist, the result has no columns.
    """
    # The lock is read first, as the transaction may end between the two queries.
    held = by is not None and bool(TABLE_HELD.row(connection, oid, str(by))["held"])
    rows = COLUMNS_MADE.rows(connection, [oid])
    columns = {row["name"]: [row["number"], row["xid"], row["file"]] for row in rows}
    generated = frozenset(row["number"] for row in rows if row["generated"])
    created, following = (rows[0]["created"], rows[0]["following"]) if rows else (0, 0)
    return ColumnsMade(columns, generated, created, following, held)


@dataclass(frozen=True, slots=True)
class AlteredTables:
    """The tables that were altered since an earlier look at the catalog."""

    #: The mark of every table that is there, by its oid.
    marks: Mapping[int, str]
    #: The columns of the altered tables, by the table's oid, as ``ColumnsMade.columns`` has them.
    columns: Mapping[int, dict[str, list[int]]]


def altered_tables(
    connection: Connection, oids: Collection[int], marks: Mapping[int, str]
) -> AlteredTables:
    """Read the marks of some tables, and the columns of those whose mark is not in ``marks``.

    Tables that do not exist are left out.
    """
    now = {row["oid"]: row["mark"] for row in COLUMN_MARKS.rows(connection, list(oids))}
    altered = [oid for oid, mark in now.items() if marks.get(oid) != mark]
    columns: dict[int, dict[str, list[int]]] = {}
    for row in COLUMNS_MADE.rows(connection, altered) if altered else ():
        origin = [row["number"], row["xid"], row["file"]]
        columns.setdefault(row["oid"], {})[row["name"]] = origin
    return AlteredTables(now, columns)


def rows_moved(connection: Connection, oid: int) -> tuple[bool, int | None]:
    """Return whether our snapshot cannot see all rows any more, and the estimated row count.

    TRUNCATE, and an ALTER TABLE that rewrites the table, remove rows that older snapshots need.
    """
    row = MOVED.row(connection, oid, oid)
    return bool(row["moved"]), row["estimated_rows"]
