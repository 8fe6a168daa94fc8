"""This module reads everything that decides what publications publish, and its place in the WAL.

If the catalog is as it was before, only a fingerprint is read. The fingerprint is read again at the
end, and if it changed meanwhile, all is read again. So a reading is consistent without a
transaction, which a pooler might not keep.
"""

from dataclasses import dataclass, field

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
# A row's identity is its oid and the transaction that wrote it. Sums of hashes need no sort.
_FINGERPRINT = """
    SELECT txid_snapshot_xmax(txid_current_snapshot()) AS next_xid, concat_ws(' ',
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_publication),
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_publication_rel),{}
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(inhrelid, ' ', xmin), 0)))
           FROM pg_inherits),
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_namespace),
        (SELECT concat(count(*), ':', sum(hashtextextended(
                    concat(oid, ' ', xmin, relpersistence, relreplident), 0)))
           FROM pg_class WHERE relkind IN ('r', 'p') AND oid >= 16384),
        (SELECT concat(count(*), ':', sum(hashtextextended(
                    concat(indexrelid, ' ', xmin, indisvalid, indisreplident), 0)))
           FROM pg_index WHERE indexrelid >= 16384),
        (SELECT concat(count(*), ':', sum(hashint8extended(
                    attrelid::bigint << 16 | attnum, xmin::text::bigint)))
           FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0)) AS fingerprint
"""
FINGERPRINT = Query(
    name="published_fingerprint",
    about="What changes when anything does that decides what is published; 15 and later, anyone "
    "may read it.",
    sql=_FINGERPRINT.format("""
        (SELECT concat(count(*), ':', sum(hashtextextended(concat(oid, ' ', xmin), 0)))
           FROM pg_publication_namespace),"""),
)
OLD_FINGERPRINT = Query(
    name="published_fingerprint_14",
    about="The same before 15; anyone may read it.",
    sql=_FINGERPRINT.format(""),
)


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
    fingerprint: str
    #: True when the fingerprint is the known one, so that nothing more was read.
    unchanged: bool = False
    publications: list[Publication] = field(default_factory=list)
    tables: list[TableFacts] = field(default_factory=list)
    paths: PublicationPaths | None = None


def read_published_state(connection: Connection, known: str = "") -> PublishedState | None:
    """Read once what is published; ``known`` is the fingerprint of an earlier reading.

    The result is None on a standby that has replayed nothing, and where the catalog changed during
    every try. Raises ``psycopg.Error``.
    """
    before = _POSITION.row(connection)["lsn"]
    if before is None:
        return None
    fingerprint, next_xid = _fingerprint(connection)
    for _ in range(_TRIES):
        publications, tables, paths = [], [], None
        if fingerprint != known:
            publications = read_publications(connection)
            tables = read_tables(connection)
            paths = read_publication_paths(connection)
        after = LSN.parse(_POSITION.row(connection)["lsn"])
        place = LookPlace(LSN.parse(before), after, next_xid)
        if fingerprint == known:
            return PublishedState(place, fingerprint, unchanged=True)
        former, (fingerprint, _) = fingerprint, _fingerprint(connection)
        if fingerprint == former:
            return PublishedState(place, fingerprint, False, publications, tables, paths)
    return None


def _fingerprint(connection: Connection) -> tuple[str, int]:
    """Return the fingerprint, and the xid that follows all that had been assigned by then."""
    modern = connection.info.server_version >= 150000
    row = (FINGERPRINT if modern else OLD_FINGERPRINT).row(connection)
    return str(row["fingerprint"]), int(row["next_xid"])
