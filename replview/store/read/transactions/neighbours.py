"""The transactions before and after one, in commit order, that touched the same table.

They are found by the sums of blocks (``store.models.sums``). Places that are not in the sums yet
are read themselves, up to a bound.
"""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass

import orjson
from psycopg import sql

from decoder.scalars import LSN
from replview.store.read import history_places as places
from replview.store.read.history_places import BLOCK
from replview.store.read.rows import QueriedSlot
from replview.store.read.session import ReadSession

#: Number of places that are read at most where the sums do not reach.
_MOST_READ = 20_000

_TOUCHED = """
    SELECT FROM transaction
    WHERE incarnation_id = %s AND commit_seq > %s AND commit_seq <= %s AND relations ?| %s LIMIT 1
"""
_MARKS = sql.SQL("""
    SELECT r.seq,
           (SELECT max(block) FROM relation_activity WHERE relation_id = %(relation)s
            AND incarnation_id = %(incarnation)s
            AND block < CASE WHEN %(seq)s > r.seq THEN r.seq / {block} + 1
                             ELSE %(seq)s / {block} END),
           (SELECT min(block) FROM relation_activity WHERE relation_id = %(relation)s
            AND incarnation_id = %(incarnation)s AND block > %(seq)s / {block}),
           (SELECT commit_seq FROM slot_incarnation WHERE id = %(incarnation)s)
    FROM (SELECT coalesce((SELECT rolled_seq FROM activity_mark
                           WHERE incarnation_id = %(incarnation)s), 0) AS seq) r
""").format(block=BLOCK)
# The ranges of a search are tried in order by coalesce(), which stops at the first one that finds a
# row.
_NEAREST = sql.SQL("""(SELECT jsonb_build_array(id, xid, gid, state, commit_seq) FROM transaction
     WHERE incarnation_id = %s AND commit_seq BETWEEN %s AND %s AND relations ? %s
     ORDER BY commit_seq {order} LIMIT 1)""")
_VERSION = sql.SQL("""
    SELECT version_id FROM change WHERE transaction_id = %s AND relation_id = %s
    ORDER BY seq {order} LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A transaction before or after another."""

    id: int
    #: The gid, else the xid, else the state and commit_seq.
    name: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The transactions before and after; unknown where the search ended at its bound."""

    previous: Neighbour | None = None
    next: Neighbour | None = None
    previous_unknown: bool = False
    next_unknown: bool = False


def neighbours_of(
    session: ReadSession, incarnation_id: int, commit_seq: int, relation_id: int
) -> Neighbours:
    """Return the nearest transactions of the same incarnation that touched the table."""
    mark_params = {"incarnation": incarnation_id, "seq": commit_seq, "relation": relation_id}
    [(rolled, earlier, later, last)] = session.rows(_MARKS, mark_params)
    block = commit_seq // BLOCK
    # Search the rest of this block first, then the nearest block with changes of the table, and
    # last the places that are not in the sums yet.
    low = block * BLOCK if commit_seq <= rolled else max(rolled + 1, commit_seq - _MOST_READ)
    before, after = [(low, commit_seq - 1)], list[tuple[int, int]]()
    cut_before = commit_seq > rolled and low > rolled + 1
    if earlier is not None and not cut_before:
        before.append(_block_range(earlier))
    if commit_seq < rolled:
        after.append((commit_seq + 1, block * BLOCK + BLOCK - 1))
        if later is not None:
            after.append(_block_range(later))
    tail = max(commit_seq, rolled)
    after.append((tail + 1, tail + _MOST_READ))
    expressions: list[sql.Composed] = []
    params: list[int | str] = []
    for ranges, order in ((before, "DESC"), (after, "ASC")):
        searches = [_NEAREST.format(order=sql.SQL(order))] * len(ranges)
        expressions.append(sql.SQL("coalesce({})").format(sql.SQL(", ").join(searches)))
        for first, end in ranges:
            params += [incarnation_id, first, end, str(relation_id)]
    query = sql.SQL("SELECT {}").format(sql.SQL(", ").join(expressions))
    [(previous, following)] = session.rows(query, params)
    no_next = following is None and last > tail + _MOST_READ
    no_previous = previous is None and cut_before
    return Neighbours(_neighbour(previous), _neighbour(following), no_previous, no_next)


def versions_around(
    session: ReadSession,
    slot: QueriedSlot,
    incarnation_id: int,
    relation_id: int,
    at: dt.datetime | LSN,
) -> tuple[int | None, int | None]:
    """Return the shapes of a table before and after a moment or an LSN.

    These are the shapes in the last transaction that touched the table by then, and in the first
    one after it; None: there is none, or it was not found.
    """
    seq = _last_seq(session, slot, incarnation_id, at)
    before = neighbours_of(session, incarnation_id, seq + 1, relation_id).previous
    after = neighbours_of(session, incarnation_id, seq, relation_id).next
    versions: list[int | None] = []
    for neighbour, order in ((before, "DESC"), (after, "ASC")):
        query = _VERSION.format(order=sql.SQL(order))
        rows = session.rows(query, [neighbour.id, relation_id]) if neighbour else []
        versions.append(rows[0][0] if rows else None)
    return versions[0], versions[1]


def is_touched_at(
    session: ReadSession,
    slot: QueriedSlot,
    incarnation_id: int,
    relation_ids: Collection[int],
    at: dt.datetime | LSN,
) -> bool:
    """Return whether a transaction that committed just at a moment or an LSN touched a table."""
    end = _last_seq(session, slot, incarnation_id, at)
    at = LSN(at - 1) if isinstance(at, LSN) else at - dt.timedelta(microseconds=1)
    start = _last_seq(session, slot, incarnation_id, at)
    tables = [str(relation_id) for relation_id in relation_ids]
    return bool(session.rows(_TOUCHED, [incarnation_id, start, end, tables]))


def _last_seq(
    session: ReadSession, slot: QueriedSlot, incarnation_id: int, at: dt.datetime | LSN
) -> int:
    """Return the commit_seq of the last transaction by a moment or an LSN; 0: there is none."""
    if not isinstance(at, LSN):
        return places.last_seqs_at_time(session, str(slot), at).get(incarnation_id, 0)
    later = places.first_seqs_from_lsn(session, str(slot), LSN(at + 1)).get(incarnation_id)
    ends = {
        incarnation.id: incarnation.commit_seq
        for incarnation in places.incarnations_of(session, slot.pk)
    }
    return ends.get(incarnation_id, 0) if later is None else later - 1


def _block_range(block: int) -> tuple[int, int]:
    return block * BLOCK, block * BLOCK + BLOCK - 1


def _neighbour(text: str | None) -> Neighbour | None:
    if text is None:
        return None
    identifier, xid, gid, state, commit_seq = orjson.loads(text)
    name = gid or (str(xid) if xid is not None else f"{state} {commit_seq:,}")
    return Neighbour(identifier, name)
