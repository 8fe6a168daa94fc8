"""Places in history: from a time or an LSN to a commit_seq, through the blocks that sum it up.

Within a life LSNs grow with commit_seq (baselines aside, which stand where they were stored);
commit times nearly do. What has no commit time (a non-transactional message) has the time at which
it was stored, and one without a commit LSN that of its record.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from decoder.scalars import LSN
from replview.store.read.rows import Incarnation
from replview.store.read.session import ReadSession

#: Places in history that are summed up as one (``store.sums``).
BLOCK = 1000
_LAST_MOMENT = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
#: The time and the LSN of a transaction that has a place in history.
PLACED_TIME = "coalesce(t.commit_time, t.stored_at, t.received_at)"
PLACED_LSN = "coalesce(t.commit_lsn, t.end_lsn, t.first_lsn)"


@dataclass(frozen=True, slots=True)
class IncarnationPlaces:
    """One life of a slot, with how far its history goes and is summed up."""

    id: int
    slot_id: int
    #: ``source/name``.
    slot: str
    number: int
    commit_seq: int
    rolled_seq: int

    @property
    def first_loose_block(self) -> int:
        """Blocks from here on are not in the sums."""
        return next_block(self.rolled_seq)


def next_block(rolled_seq: int) -> int:
    """The first block that is not in the sums."""
    return (rolled_seq + 1) // BLOCK if rolled_seq else 0


_LIVES = """
    SELECT i.id, s.id, o.name || '/' || s.name, i.number, i.commit_seq, coalesce(m.rolled_seq, 0)
    FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id JOIN source o ON o.id = s.source_id
    LEFT JOIN activity_mark m ON m.incarnation_id = i.id
    WHERE (%(slot)s = '' OR (o.name, s.name) = (%(source)s, %(name)s)) AND
          (%(seen)s::bigint[] IS NULL OR s.source_id = ANY(%(seen)s)) AND
          (%(ids)s::bigint[] IS NULL OR i.id = ANY(%(ids)s))
    ORDER BY i.id DESC
"""

# The blocks that may hold what is asked for, then the transactions of the first or last of them
# and of those that are not summed up yet.
_RANGE = """
    SELECT l.life, first.seq, last.seq
    FROM (SELECT i.id AS life, coalesce(m.rolled_seq, -1) + 1 AS tail
          FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id
          JOIN source o ON o.id = s.source_id
          LEFT JOIN activity_mark m ON m.incarnation_id = i.id
          WHERE (%(seen)s::bigint[] IS NULL OR s.source_id = ANY(%(seen)s)) AND
                (%(slot)s = '' OR (o.name, s.name) = (%(source)s, %(name)s)) AND
                (%(ids)s::bigint[] IS NULL OR i.id = ANY(%(ids)s))) AS l
    CROSS JOIN LATERAL (
        SELECT min(block) AS first, max(block) AS last FROM history_block
        WHERE incarnation_id = l.life AND {block}) AS b
    CROSS JOIN LATERAL (
        SELECT coalesce(
            (SELECT t.commit_seq FROM transaction t
             WHERE t.incarnation_id = l.life AND {row} AND
                   t.commit_seq BETWEEN b.first * %(size)s AND b.last * %(size)s + %(size)s - 1
             ORDER BY t.commit_seq LIMIT 1),
            (SELECT t.commit_seq FROM transaction t
             WHERE t.incarnation_id = l.life AND t.commit_seq >= l.tail AND {row}
             ORDER BY t.commit_seq LIMIT 1)) AS seq) AS first
    CROSS JOIN LATERAL (
        SELECT coalesce(
            (SELECT t.commit_seq FROM transaction t
             WHERE t.incarnation_id = l.life AND t.commit_seq >= l.tail AND {row}
             ORDER BY t.commit_seq DESC LIMIT 1),
            (SELECT t.commit_seq FROM transaction t
             WHERE t.incarnation_id = l.life AND {row} AND
                   t.commit_seq BETWEEN b.first * %(size)s AND b.last * %(size)s + %(size)s - 1
             ORDER BY t.commit_seq DESC LIMIT 1)) AS seq) AS last
"""


def incarnations_of(session: ReadSession, slot_id: int) -> list[Incarnation]:
    """Those of one slot, in no order."""
    sql = "SELECT id, number, commit_seq FROM slot_incarnation WHERE slot_id = %s"
    return [Incarnation(*row) for row in session.rows(sql, [slot_id])]


def lives_of(session: ReadSession, slot: str = "") -> list[IncarnationPlaces]:
    """The lives of one slot (``source/name``; empty: of all), the newest first."""
    return [IncarnationPlaces(*row) for row in session.rows(_LIVES, _scope(session, slot, None))]


def _scope(session: ReadSession, slot: str, ids: Collection[int] | None) -> dict[str, Any]:
    source, _, name = slot.rpartition("/")
    wanted = None if ids is None else list(ids)
    seen = session.source_ids()
    return {"slot": slot, "source": source, "name": name, "ids": wanted, "seen": seen}


def seq_range(
    session: ReadSession,
    incarnation_ids: Collection[int],
    since: dt.datetime | None,
    until: dt.datetime | None,
) -> dict[int, tuple[int, int]]:
    """Per life the first and last commit_seq from ``since`` (included) to ``until`` (not).

    Between the two, single transactions may be of another time: commits of one moment reach the
    WAL in any order. A life with none is absent.
    """
    return _known(
        _range(session, _scope(session, "", incarnation_ids), *_time_conditions(since, until))
    )


def seq_at_time(
    session: ReadSession, incarnation_ids: Collection[int], moment: dt.datetime
) -> dict[int, int]:
    """Per life the last commit_seq at or before a moment; a life that began later is absent."""
    found = _range(
        session, _scope(session, "", incarnation_ids), *_time_conditions(None, _just_after(moment))
    )
    return {life: last for life, (_, last) in _known(found).items()}


def last_seqs_at_time(session: ReadSession, slot: str, moment: dt.datetime) -> dict[int, int]:
    """The same of a slot's lives (empty: of all); 0 of one that began later."""
    found = _range(
        session, _scope(session, slot, None), *_time_conditions(None, _just_after(moment))
    )
    return {life: places[1] if places else 0 for life, places in found.items()}


def seq_at_lsn(session: ReadSession, incarnation_ids: Collection[int], lsn: LSN) -> dict[int, int]:
    """Per life the last commit_seq at or before an LSN; a life that began later is absent."""
    found = _range(session, _scope(session, "", incarnation_ids), *_lsn_conditions("<=", lsn))
    return {life: last for life, (_, last) in _known(found).items()}


def first_seqs_from_lsn(session: ReadSession, slot: str, lsn: LSN) -> dict[int, int]:
    """Of each of a slot's lives (empty: of all) the first commit_seq at or after an LSN; a life
    that does not reach it is absent.
    """
    found = _range(session, _scope(session, slot, None), *_lsn_conditions(">=", lsn))
    return {life: first for life, (first, _) in _known(found).items()}


#: Conditions on blocks, on their transactions, and the values of both.
_Conditions = tuple[list[str], list[str], dict[str, Any]]


def _time_conditions(since: dt.datetime | None, until: dt.datetime | None) -> _Conditions:
    blocks, rows, values = [], [], {}
    if since is not None:
        blocks.append("last_time >= %(since)s")
        rows.append(f"{PLACED_TIME} >= %(since)s")
        values["since"] = since
    if until is not None:
        blocks.append("first_time < %(until)s")
        rows.append(f"{PLACED_TIME} < %(until)s")
        values["until"] = until
    return blocks, rows, values


def _just_after(moment: dt.datetime) -> dt.datetime | None:
    return moment + dt.timedelta(microseconds=1) if moment < _LAST_MOMENT else None


def _lsn_conditions(compare: str, lsn: LSN) -> _Conditions:
    block = "first_lsn" if compare == "<=" else "last_lsn"
    rows = ["t.state <> 'snapshot'", f"{PLACED_LSN} {compare} %(lsn)s"]
    return [f"{block} {compare} %(lsn)s"], rows, {"lsn": str(lsn)}


def _known(found: dict[int, tuple[int, int] | None]) -> dict[int, tuple[int, int]]:
    return {life: places for life, places in found.items() if places is not None}


def _range(
    session: ReadSession,
    scope: dict[str, Any],
    blocks: Sequence[str],
    rows: Sequence[str],
    values: dict[str, Any],
) -> dict[int, tuple[int, int] | None]:
    """Of each life in scope the first and last place that fulfil the conditions."""
    sql = _RANGE.format(block=" AND ".join(blocks) or "true", row=" AND ".join(rows) or "true")
    found = session.rows(sql, {**scope, **values, "size": BLOCK})
    return {row[0]: None if row[1] is None else (row[1], row[2]) for row in found}
