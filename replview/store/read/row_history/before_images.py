"""Derive the row before a change that did not send it, from the record, and never guess.

Under replica identity DEFAULT or INDEX the server sends no old row. The row's last earlier change
in the same incarnation of the slot left it as it was; values that this change did not send
(unchanged TOAST) may be in an earlier one. Nothing is derived across a hole in the record, a
truncation, a deletion, or a period in which some operation of the table was not published.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from decoder.scalars import LSN
from replview.store.read.days import IDS_PER_HOUR
from replview.store.read.row_history.breaks import Breaks, read_breaks
from replview.store.read.row_history.other_keys import OtherKeys, read_other_keys
from replview.store.read.row_history.replay import BeforeImage, Replay
from replview.store.read.row_history.row_past import (
    MANY,
    EarlierPlaces,
    Lookup,
    RowPast,
    follow,
    past_of,
    past_of_step,
)
from replview.store.read.row_history.shapes import Shapes
from replview.store.read.rows import NOT_ABORTED, OPEN_END, ChangeRow, RowStep
from replview.store.read.seen import STEP_COLUMNS, step_of
from replview.store.read.session import ReadSession, array_text

#: Earlier changes read in the first rounds, and in each later round; most rows need only the
#: first round.
_ROUNDS = (3, 3)
_ROUNDS_OF_MANY = (1, 2)
_LATER_ROUNDS = 17
#: The values of ``hours`` that search everything older, and everything.
_ALL_HOURS, _EVERYWHERE = 1 << 29, 1 << 30
#: Above this many interleaved transactions, scan all of them instead of checking each.
_MOST_OPEN = 2000

# Earlier changes are searched in the transactions of some hours, where identifiers follow commits,
# since a search of each day's partition is slow. A transaction that was open for long, or a
# baseline, may come in between with an identifier outside of these hours.
_PAST = f"""
    SELECT w.number, (
        SELECT count(*) = {_MOST_OPEN} OR coalesce(bool_or(
            o.id NOT BETWEEN w.low AND w.high AND EXISTS (
                SELECT FROM change k
                WHERE k.transaction_id = o.id AND k.relation_id = w.relation_id
                  AND k.key_hash = w.key_hash AND k.lsn BETWEEN p.place AND w.lsn)), false)
        FROM (SELECT o.id FROM transaction o
              WHERE o.incarnation_id = w.incarnation_id AND (o.streamed OR o.gid IS NOT NULL)
                AND o.commit_seq IS NOT NULL AND o.commit_lsn > p.place AND o.commit_lsn < w.lsn
              LIMIT {_MOST_OPEN}) o
    ) OR EXISTS (
        SELECT FROM baseline b
        WHERE b.incarnation_id = w.incarnation_id AND b.lsn BETWEEN p.place AND w.lsn
          AND b.transaction_id NOT BETWEEN w.low AND w.high
    ), p.*
    FROM (
        SELECT u.*, mine.incarnation_id,
               CASE WHEN i.hours_in_order AND u.hours < {_ALL_HOURS}
                    THEN (mine.id / {IDS_PER_HOUR} - u.hours) * {IDS_PER_HOUR} ELSE 0 END AS low,
               CASE WHEN i.hours_in_order AND u.hours < {_EVERYWHERE}
                         AND mine.state = 'committed' AND NOT mine.streamed AND mine.gid IS NULL
                    THEN (mine.id / {IDS_PER_HOUR} + 24) * {IDS_PER_HOUR}
                    ELSE {OPEN_END} END AS high
        FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[],
                    %s::pg_lsn[], %s::int[], %s::int[])
             AS u (number, transaction_id, relation_id, key_hash, lsn, seq, hours)
        JOIN transaction mine ON mine.id = u.transaction_id
        JOIN slot_incarnation i ON i.id = mine.incarnation_id
    ) w CROSS JOIN LATERAL (
        SELECT c.lsn AS place, {STEP_COLUMNS}
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = w.relation_id AND c.key_hash = w.key_hash
          AND (c.lsn, c.seq) < (w.lsn, w.seq) AND c.transaction_id BETWEEN w.low AND w.high
          AND t.incarnation_id = w.incarnation_id
          AND (t.state IN ('committed', 'snapshot') OR t.id = w.transaction_id)
          AND {NOT_ABORTED}
        ORDER BY c.lsn DESC, c.seq DESC LIMIT %s
    ) p
"""  # noqa: S608 (nothing but the store's own columns)

_MINE = """
    SELECT id, incarnation_id, (commit_lsn - '0/0')::bigint FROM transaction WHERE id = ANY(%s)
"""

_AT = f"""
    SELECT {STEP_COLUMNS}
    FROM unnest(%s::bigint[], %s::int[]) AS w (transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq
    JOIN transaction t ON t.id = w.transaction_id
"""  # noqa: S608

_OF_BASELINES = f"""
    SELECT w.number, {STEP_COLUMNS}
    FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[])
         AS w (number, transaction_id, relation_id, key_hash)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.relation_id = w.relation_id
                 AND c.key_hash = w.key_hash
    JOIN transaction t ON t.id = c.transaction_id AND t.state = 'snapshot'
"""  # noqa: S608


@dataclass(slots=True)
class Shared:
    """A cache of what several calls need."""

    #: ``{transaction: (incarnation, commit LSN as a number)}``.
    mine: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    _shapes: Shapes | None = None
    _of: set[int] = field(default_factory=set)
    _breaks: Breaks | None = None
    _broken: set[tuple[int, int]] = field(default_factory=set)

    def shapes(self, session: ReadSession, relation_ids: set[int]) -> Shapes:
        """Return the shapes of these tables, and perhaps of more."""
        if self._shapes is None or not relation_ids <= self._of:
            self._of |= relation_ids
            self._shapes = Shapes.of(session, self._of)
        return self._shapes

    def learn(self, session: ReadSession, ids: set[int]) -> None:
        """Read the incarnation and commit LSN of these transactions."""
        if missing := ids - self.mine.keys():
            self.mine |= {
                row[0]: row[1:] for row in session.prepared_rows(_MINE, [sorted(missing)])
            }

    def breaks(
        self, session: ReadSession, relation_ids: set[int], incarnations: set[int]
    ) -> Breaks:
        """Return all breaks of these tables and incarnations, and perhaps of more."""
        wanted = {(relation, each) for relation in relation_ids for each in incarnations}
        if self._breaks is None or not wanted <= self._broken:
            self._broken = wanted
            self._breaks = read_breaks(session, relation_ids, incarnations, 0, OPEN_END)
        return self._breaks


def before_images(
    session: ReadSession, changes: Iterable[ChangeRow], shared: Shared | None = None
) -> dict[tuple[int, int], BeforeImage]:
    """Return ``{(transaction_id, seq): row before}`` of updates and deletes without an old row."""
    return before_columns(session, changes, None, shared)[0]


def before_columns(
    session: ReadSession,
    changes: Iterable[ChangeRow],
    columns: Collection[str] | None,
    shared: Shared | None = None,
) -> tuple[dict[tuple[int, int], BeforeImage], set[tuple[int, int]]]:
    """Return rows before changes like ``before_images``, but derive only these columns (None: all).

    Also returns the changes of which more columns could have been derived.
    """
    shared = shared or Shared()
    wanted = [change for change in changes if _is_derivable(change)]
    if not wanted:
        return {}, set()
    relation_ids = {change.relation_id for change in wanted if change.relation_id is not None}
    shapes = shared.shapes(session, relation_ids)
    shared.learn(session, {change.transaction_id for change in wanted})
    found = (past_of(change, shared.mine, shapes) for change in wanted)
    pasts = [past for past in found if past is not None]
    if columns is not None:
        for past in pasts:
            past.wanted = frozenset(columns)
            past.end_if_enough()
    _look_back(session, pasts, shapes, shared)
    images = {_at(past): past.before for past in pasts if past.before is not None}
    return images, {_at(past) for past in pasts if past.partial}


def before_at(
    session: ReadSession, places: Sequence[tuple[int, int]], shared: Shared, *, sent: bool = False
) -> dict[tuple[int, int], BeforeImage]:
    """Derive the rows before committed changes, by (transaction, seq).

    ``sent``: use the whole old row where the server sent one.
    """
    ids, seqs = (array_text(place[part] for place in places) for part in (0, 1))
    found = session.prepared_rows(_AT, [ids, seqs])
    steps = [step_of(row, session.visibility) for row in found]
    shapes = shared.shapes(session, {step.relation_id for step in steps})
    pasts = []
    for step in steps:
        version = shapes.versions.get(step.version_id)
        if version is not None:
            past = past_of_step(step, version.key_columns, version.columns)
            pasts += [] if past is None else [past]
    for past in pasts:
        change = past.change
        if sent and change.old_kind == "O":
            old = change.old or {}
            origins = dict.fromkeys(old, (*_at(past), "old"))
            past.ended, past.before = True, BeforeImage.of(old, change, frozenset(), origins)
    _look_back(session, pasts, shapes, shared)
    return {_at(past): past.before for past in pasts if past.before is not None}


def _look_back(
    session: ReadSession, pasts: Sequence[RowPast], shapes: Shapes, shared: Shared
) -> None:
    """Read earlier changes round by round, until enough is known of each or there is no more."""
    many = sum(not past.ended for past in pasts) >= MANY
    places = EarlierPlaces(session) if many else None
    others = _other_keys(session, pasts, shapes)
    breaks = None
    first = _ROUNDS_OF_MANY if many else _ROUNDS
    for number, limit in enumerate(chain(first, repeat(_LATER_ROUNDS))):
        asked = [past for past in pasts if not past.ended]
        if not asked:
            break
        exhausted = _read_placed(asked, limit, places) if places else None
        if exhausted is None:
            exhausted = _read(session, asked, limit)
        breaks = _breaks_for(session, pasts, breaks, shapes, shared)
        if number == 0:
            _read_overlapping(session, asked, breaks)
        for past, is_all in zip(asked, exhausted, strict=True):
            names = shapes.versions[past.change.version_id].key_columns
            replay = Replay(shapes, others.added_to(breaks, names))
            follow(past, replay, is_all=is_all)


def _other_keys(session: ReadSession, pasts: Sequence[RowPast], shapes: Shapes) -> OtherKeys:
    return read_other_keys(
        session,
        shapes,
        {past.change.relation_id for past in pasts},
        {past.change.incarnation_id for past in pasts},
        {past.change.transaction_id for past in pasts if past.change.commit_lsn is None},
    )


def _is_derivable(change: ChangeRow) -> bool:
    return (
        change.op in ("U", "D")
        and change.old_kind != "O"
        and change.key_hash is not None
        and change.relation_id is not None
    )


def _at(past: RowPast) -> tuple[int, int]:
    return past.change.transaction_id, past.change.seq


def _read(session: ReadSession, asked: Sequence[RowPast], limit: int) -> list[bool]:
    """Read the next earlier changes of each; return for each whether those were all."""
    found = session.prepared_rows(
        _PAST,
        [
            array_text(range(len(asked))),
            array_text(past.change.transaction_id for past in asked),
            array_text(past.change.relation_id for past in asked),
            array_text(past.key_hash for past in asked),
            [str(LSN(past.until[0])) for past in asked],
            array_text(past.until[1] for past in asked),
            array_text(past.hours for past in asked),
            limit,
        ],
    )
    steps: list[list[RowStep]] = [[] for _ in asked]
    for row in found:
        steps[row[0]].append(step_of(row[3:], session.visibility))
    interrupted = {row[0] for row in found if row[1]}
    exhausted = [len(each) < limit for each in steps]
    is_all = []
    for number, past in enumerate(asked):
        if number in interrupted and past.hours < _EVERYWHERE:
            past.hours = _EVERYWHERE
            is_all.append(False)
            continue
        past.steps += steps[number]
        past.until = min([past.until, *((step.lsn, step.seq) for step in steps[number])])
        is_all.append(exhausted[number] and past.hours >= _ALL_HOURS)
        if exhausted[number] and not is_all[-1]:
            past.hours = _ALL_HOURS
    return is_all


def _read_placed(asked: Sequence[RowPast], limit: int, places: EarlierPlaces) -> list[bool] | None:
    """Like _read(), for many rows together; None where the rows have too many changes."""
    lookups = [
        Lookup(
            (past.change.relation_id, past.key_hash),
            past.until,
            past.change.transaction_id,
            past.change.incarnation_id,
        )
        for past in asked
    ]
    found = places.steps(lookups, limit)
    if found is None:
        return None
    for past, (steps, until) in zip(asked, found, strict=True):
        past.steps += steps
        past.until = until
    return [len(steps) < limit for steps, _ in found]


def _breaks_for(
    session: ReadSession,
    pasts: Sequence[RowPast],
    known: Breaks | None,
    shapes: Shapes,
    shared: Shared,
) -> Breaks:
    """Return the breaks in the range that the steps reach.

    Where every row has a key, all breaks are read once, as only truncations have no key. Otherwise
    they are read no further back than needed, and again where the steps reach further.
    """
    is_keyed = all(version.key_columns for version in shapes.versions.values())
    if known is not None and is_keyed:
        return known
    relation_ids = {past.change.relation_id for past in pasts}
    incarnations = {past.change.incarnation_id for past in pasts}
    open_ids = {past.change.transaction_id for past in pasts if past.change.commit_lsn is None}
    if is_keyed and not open_ids:
        return shared.breaks(session, relation_ids, incarnations)
    return read_breaks(
        session,
        relation_ids,
        incarnations,
        0 if is_keyed else min(past.until[0] for past in pasts),
        max(past.change.lsn for past in pasts),
        open_ids,
    )


def _read_overlapping(session: ReadSession, asked: Sequence[RowPast], breaks: Breaks) -> None:
    """Read rows of baselines between a change's LSN and its commit: they come before the change."""
    wanted = [
        (number, transaction_id)
        for number, past in enumerate(asked)
        for position, transaction_id in breaks.baselines.get(past.change.incarnation_id, ())
        if past.change.lsn <= position
        and position <= (OPEN_END if past.change.commit_lsn is None else past.change.commit_lsn)
    ]
    if not wanted:
        return
    found = session.prepared_rows(
        _OF_BASELINES,
        [
            [number for number, _ in wanted],
            [transaction_id for _, transaction_id in wanted],
            [asked[number].change.relation_id for number, _ in wanted],
            [asked[number].key_hash for number, _ in wanted],
        ],
    )
    for row in found:
        asked[row[0]].steps.append(step_of(row[1:], session.visibility))
