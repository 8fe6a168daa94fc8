"""Conversions from a time or an LSN to a commit_seq, using the sums of blocks of history.

Within an incarnation LSNs grow with commit_seq (except for baselines, which take the place at which
they were stored); commit times nearly do. An entry without a commit time (a non-transactional
message) counts at the time it was stored, and one without a commit LSN at the LSN of its record.
"""

import datetime as dt
from dataclasses import dataclass

from psycopg import sql

from decoder.scalars import LSN
from replview.store.read.rows import Incarnation
from replview.store.read.session import ReadSession

#: Number of commit_seq values that one row of sums covers (``store.sums``).
BLOCK = 1000
#: SQL for the time, and for the LSN, of a transaction that has a commit_seq.
PLACED_TIME = "coalesce(t.commit_time, t.stored_at, t.received_at)"
PLACED_LSN = "coalesce(t.commit_lsn, t.end_lsn, t.first_lsn)"
_FROM_SLOT = """
    FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id JOIN source o ON o.id = s.source_id
    LEFT JOIN activity_mark m ON m.incarnation_id = i.id
    WHERE (%(slot)s = '' OR (o.name, s.name) = (%(source)s, %(name)s)) AND
          (%(seen)s::bigint[] IS NULL OR s.source_id = ANY(%(seen)s))
"""
_INCARNATIONS = sql.SQL("""
    SELECT i.id, s.id, o.name || '/' || s.name, i.number, i.commit_seq, coalesce(m.rolled_seq, 0)
    {from_slot} ORDER BY i.id DESC
""").format(from_slot=sql.SQL(_FROM_SLOT))
# Find the first and last block that may contain the place, then search the transactions of these,
# and those after the last summed block.
_PLACES = sql.SQL("""
    SELECT l.incarnation, coalesce({places})
    FROM (SELECT i.id AS incarnation, coalesce(m.rolled_seq, -1) + 1 AS tail {from_slot}) AS l
    CROSS JOIN LATERAL (
        SELECT min(block) AS first, max(block) AS last FROM history_block
        WHERE incarnation_id = l.incarnation AND {block}) AS b
""")
_IN_BLOCKS = sql.SQL("""
        (SELECT t.commit_seq FROM transaction t WHERE t.incarnation_id = l.incarnation AND {row}
           AND t.commit_seq BETWEEN b.first * %(size)s AND b.last * %(size)s + %(size)s - 1
         ORDER BY t.commit_seq {order} LIMIT 1)
""")
_AFTER_BLOCKS = sql.SQL("""
        (SELECT t.commit_seq FROM transaction t WHERE t.incarnation_id = l.incarnation AND {row}
           AND t.commit_seq >= l.tail ORDER BY t.commit_seq {order} LIMIT 1)
""")
_BY_TIME = {
    "row": sql.SQL("{} <= %(moment)s").format(sql.SQL(PLACED_TIME)),
    "order": sql.SQL("DESC"),
}
_LAST_AT_TIME = _PLACES.format(
    from_slot=sql.SQL(_FROM_SLOT),
    block=sql.SQL("first_time <= %(moment)s"),
    places=sql.SQL(", ").join(
        [_AFTER_BLOCKS.format(**_BY_TIME), _IN_BLOCKS.format(**_BY_TIME), sql.Literal(0)]
    ),
)
_BY_LSN = {
    "row": sql.SQL("t.state <> 'snapshot' AND {} >= %(lsn)s").format(sql.SQL(PLACED_LSN)),
    "order": sql.SQL("ASC"),
}
_FIRST_FROM_LSN = _PLACES.format(
    from_slot=sql.SQL(_FROM_SLOT),
    block=sql.SQL("last_lsn >= %(lsn)s"),
    places=sql.SQL(", ").join([_IN_BLOCKS.format(**_BY_LSN), _AFTER_BLOCKS.format(**_BY_LSN)]),
)


@dataclass(frozen=True, slots=True)
class IncarnationPlaces:
    """One incarnation of a slot, with its last commit_seq and the last one covered by the sums."""

    id: int
    slot_id: int
    #: ``source/name``.
    slot: str
    number: int
    commit_seq: int
    rolled_seq: int


def next_block(rolled_seq: int) -> int:
    """Return the first block that is not in the sums."""
    return (rolled_seq + 1) // BLOCK if rolled_seq else 0


def incarnations_of(session: ReadSession, slot_id: int) -> list[Incarnation]:
    """Return the incarnations of one slot, in no order."""
    query = "SELECT id, number, commit_seq FROM slot_incarnation WHERE slot_id = %s"
    return [Incarnation(*row) for row in session.rows(query, [slot_id])]


def incarnation_places(session: ReadSession, slot: str = "") -> list[IncarnationPlaces]:
    """Return the incarnations of one slot (``source/name``; empty: of all slots), newest first."""
    return [IncarnationPlaces(*row) for row in session.rows(_INCARNATIONS, scope(session, slot))]


def last_seqs_at_time(session: ReadSession, slot: str, moment: dt.datetime) -> dict[int, int]:
    """Return ``{incarnation: last commit_seq at or before a moment, or 0}`` (no slot: of all)."""
    params = {**scope(session, slot), "moment": moment, "size": BLOCK}
    return dict(session.rows(_LAST_AT_TIME, params))


def first_seqs_from_lsn(session: ReadSession, slot: str, lsn: LSN) -> dict[int, int]:
    """Return ``{incarnation: first commit_seq at or after an LSN}`` where there is one."""
    params = {**scope(session, slot), "lsn": str(lsn), "size": BLOCK}
    rows = session.rows(_FIRST_FROM_LSN, params)
    return {incarnation: seq for incarnation, seq in rows if seq is not None}


def scope(session: ReadSession, slot: str) -> dict[str, object]:
    """Return the parameters that restrict a statement to a slot's incarnations (empty: all)."""
    source, _, name = slot.rpartition("/")
    return {"slot": slot, "source": source, "name": name, "seen": session.source_ids()}
