"""This module reads everything that decides what publications publish, and its place in the WAL.

A reading is consistent without a transaction, which a pooler might not keep.
See *How altered tables and publications are noticed* in docs/architecture.md.
"""

from dataclasses import dataclass, field

from psycopg import sql

from decoder.scalars import LSN
from replview.catalog.connections import Connection, Query
from replview.catalog.publication_paths import PublicationPaths, read_publication_paths
from replview.catalog.publications import Publication, read_publications
from replview.catalog.tables import TableFacts, read_tables

_POSITION = Query(
    name="position_of_look",
    about="Where the WAL ends, written out or not (on a standby: where it is replayed); anyone may "
    "read it.",
    sql="""
        SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                    ELSE pg_current_wal_insert_lsn() END::text AS lsn
    """,
)
#: Number of tries to read a catalog that changes while it is read.
_TRIES = 3
# A row's identity is its oid and the transaction that wrote it; TRUNCATE writes a row of pg_class.
# Sums of hashes need no sort.
_FINGERPRINT = """
    SELECT concat_ws(' ',
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_publication),
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_publication_rel),{schemas}
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(inhrelid, ' ', xmin), 0)))
           FROM pg_inherits),
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'),
        (SELECT concat(count(*), ':', sum(hashtextextended(
                    concat_ws(' ', oid, relname, relnamespace, relpersistence, relreplident), 0)))
           FROM pg_class WHERE relkind IN ('r', 'p') AND oid >= 16384 AND relpersistence <> 't'),
        (SELECT concat(count(*), ':', sum(hashtextextended(
                    concat(indexrelid, ' ', xmin, indisvalid, indisreplident), 0)))
           FROM pg_index WHERE indexrelid >= 16384),
        (SELECT concat(count(*), ':', sum(hashint8extended(
                    attrelid::bigint << 16 | attnum, xmin::text::bigint)))
           FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0)) AS fingerprint
"""
_SCHEMAS = """
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_publication_namespace),"""
FINGERPRINT = Query(
    name="published_fingerprint",
    about="What changes when anything does that decides what is published; 15 and later, anyone "
    "may read it.",
    sql=sql.SQL(_FINGERPRINT).format(schemas=sql.SQL(_SCHEMAS)).as_string(),
)
OLD_FINGERPRINT = Query(
    name="published_fingerprint_14",
    about="The same before 15; anyone may read it.",
    sql=sql.SQL(_FINGERPRINT).format(schemas=sql.SQL("")).as_string(),
)

# Tables that sessions make for themselves come and go, and are never published. A column that is
# dropped is a newer row; a table or index that is dropped is missing from pg_class.
_NEWER = """
    WITH since AS (SELECT age((%s %% 4294967296)::text::xid) AS most),
         class AS (SELECT count(*) AS rows, coalesce(bool_or({newer}), false) AS is_newer
                     FROM pg_class WHERE relpersistence <> 't')
    SELECT txid_snapshot_xmax(txid_current_snapshot()) AS next_xid,
           txid_snapshot_xmin(txid_current_snapshot()) AS since,
           concat_ws(' ',
               (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_publication_rel),
               (SELECT count(*) FROM pg_inherits),
               (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'),
               class.rows{counts}) AS counts,
           class.is_newer
           OR EXISTS (SELECT FROM pg_publication WHERE {newer})
           OR EXISTS (SELECT FROM pg_publication_rel WHERE {newer})
           OR EXISTS (SELECT FROM pg_inherits WHERE {newer})
           OR EXISTS (SELECT FROM pg_namespace
                       WHERE nspname !~ '^pg_(toast_)?temp_' AND {newer})
           OR EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
                       WHERE {newer_index} AND c.relpersistence <> 't')
           OR EXISTS (SELECT FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
                       WHERE {newer_attribute} AND c.relpersistence <> 't'){exists} AS is_newer
      FROM class
"""
# An age below zero is that of a transaction long ago, whose number has come around since.
_IS_NEWER = sql.SQL("age({xmin}) <= (SELECT most FROM since) AND age({xmin}) >= 0")
_NEWER_ROWS = {
    "newer": _IS_NEWER.format(xmin=sql.Identifier("xmin")),
    "newer_index": _IS_NEWER.format(xmin=sql.Identifier("i", "xmin")),
    "newer_attribute": _IS_NEWER.format(xmin=sql.Identifier("a", "xmin")),
}
_NEWER_SCHEMAS = " OR EXISTS (SELECT FROM pg_publication_namespace WHERE {newer})"
NEWER = Query(
    name="published_newer",
    about="The numbers of rows that decide what is published, and whether any may be newer than a "
    "transaction; 15 and later, anyone may read it.",
    sql=sql.SQL(_NEWER)
    .format(
        counts=sql.SQL(", (SELECT count(*) FROM pg_publication_namespace)"),
        exists=sql.SQL(_NEWER_SCHEMAS).format(**_NEWER_ROWS),
        **_NEWER_ROWS,
    )
    .as_string(),
)
OLD_NEWER = Query(
    name="published_newer_14",
    about="The same before 15; anyone may read it.",
    sql=sql.SQL(_NEWER).format(counts=sql.SQL(""), exists=sql.SQL(""), **_NEWER_ROWS).as_string(),
)


@dataclass(frozen=True, slots=True)
class CatalogMark:
    """The mark of one reading of the catalog, by which a later reading finds out if it differs."""

    fingerprint: str
    #: The numbers of rows.
    counts: str
    #: The oldest transaction that had not ended; those before it had.
    since: int


@dataclass(frozen=True, slots=True)
class LookPlace:
    """The place in the source's WAL at which the publications were read."""

    #: The reading includes everything that was committed before this.
    before: LSN
    #: Everything that the reading includes was committed before this.
    after: LSN
    #: Every transaction from this xid on began after the reading did; with the epoch.
    next_xid: int


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The result of one reading."""

    place: LookPlace
    mark: CatalogMark
    #: True when the catalog is as it was, so that nothing more was read.
    unchanged: bool = False
    publications: list[Publication] = field(default_factory=list)
    tables: list[TableFacts] = field(default_factory=list)
    paths: PublicationPaths | None = None


def read_published_state(
    connection: Connection, former_mark: CatalogMark | None = None
) -> PublishedState | None:
    """Read once what is published; ``former_mark`` is the mark of an earlier reading.

    The result is None on a standby that has replayed nothing, and where the catalog changed during
    every try. Raises ``psycopg.Error``.
    """
    lsn_before = _POSITION.row(connection)["lsn"]
    if lsn_before is None:
        return None
    mark, next_xid = _read_mark(connection, former_mark)
    for _ in range(_TRIES):
        publications, tables, paths = [], [], None
        unchanged = former_mark is not None and mark.fingerprint == former_mark.fingerprint
        if not unchanged:
            publications = read_publications(connection)
            tables = read_tables(connection)
            paths = read_publication_paths(connection)
        lsn_after = LSN.parse(_POSITION.row(connection)["lsn"])
        position = LookPlace(LSN.parse(lsn_before), lsn_after, next_xid)
        if unchanged:
            return PublishedState(position, mark, unchanged=True)
        former, (mark, _) = mark.fingerprint, _read_mark(connection)
        if mark.fingerprint == former:
            return PublishedState(position, mark, False, publications, tables, paths)
    return None


def _read_mark(
    connection: Connection, former_mark: CatalogMark | None = None
) -> tuple[CatalogMark, int]:
    """Return the catalog's mark, and the xid that follows all that had been assigned by then.

    The fingerprint is computed only where some row is newer than ``former_mark`` or gone.
    """
    modern = connection.info.server_version >= 150000
    since_xid = former_mark.since if former_mark is not None else 0
    # First: what becomes visible afterwards is newer, too.
    newer = (NEWER if modern else OLD_NEWER).row(connection, since_xid)
    if former_mark is not None and not newer["is_newer"] and newer["counts"] == former_mark.counts:
        mark = CatalogMark(former_mark.fingerprint, former_mark.counts, newer["since"])
        return mark, int(newer["next_xid"])
    row = (FINGERPRINT if modern else OLD_FINGERPRINT).row(connection)
    mark = CatalogMark(str(row["fingerprint"]), newer["counts"], newer["since"])
    return mark, int(newer["next_xid"])
