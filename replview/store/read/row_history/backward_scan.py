"""Walking back through one row's changes, newest first, also under the keys it had before.

A strand is the changes under one key. Where a change moved a key into the strand's, the walk goes
on under the key it came from, down to where that row began; where a change moved the row away, it
is followed forward under its new key, to where it ends there.
"""

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from decoder.scalars import LSN
from replview.store.read.row_history.breaks import Breaks, read_breaks
from replview.store.read.row_history.key_chain import END, At, Life, Strand, Strands
from replview.store.read.row_history.keys import KeyProblem, TableRows
from replview.store.read.row_history.steps import (
    CUT_COLUMNS,
    NOT_ABORTED,
    STEP_WIDTH,
    step_of,
)
from replview.store.read.rows import OPEN_END, Slot, Step
from replview.store.read.session import ReadSession

#: Lives looked at in one query; temporary slots have a life a connection.
_LIVES_AT_ONCE = 8
#: Moves of a key that are followed forward.
_MOVES = 20

_LIVES = """
    SELECT i.id, i.number, i.system_identifier, i.reason, i.started_at,
           (i.started_lsn - '0/0')::bigint, gap.message, p.commit_time,
           EXISTS (SELECT FROM slot_event e WHERE e.slot_id = i.slot_id
                   AND e.incarnation_id = i.id AND e.kind = 'failover'
                   AND coalesce((e.detail->>'beyond')::bigint, 1) > 0),
           (SELECT value->i.slot_id::text FROM setting WHERE name = 'retention.slots')
    FROM slot_incarnation i
    LEFT JOIN LATERAL (
        SELECT e.message FROM slot_event e WHERE e.slot_id = i.slot_id
        AND e.incarnation_id = i.id AND e.kind = 'gap' ORDER BY e.id LIMIT 1
    ) gap ON true
    LEFT JOIN slot_incarnation former ON former.slot_id = i.slot_id AND former.number = i.number - 1
    LEFT JOIN LATERAL (
        SELECT t.commit_time FROM transaction t
        WHERE t.incarnation_id = former.id AND t.commit_seq IS NOT NULL
        ORDER BY t.commit_seq DESC LIMIT 1
    ) p ON true
    WHERE i.slot_id = %s ORDER BY i.number DESC
"""

_MOVED_AWAY = f"""
    SELECT {CUT_COLUMNS}
    FROM change c JOIN transaction t ON t.id = c.transaction_id
    WHERE c.relation_id = ANY(%(relations)s) AND c.old_key_hash = ANY(%(hashes)s)
      AND t.incarnation_id = ANY(%(lives)s) AND t.state = 'committed' AND {NOT_ABORTED}
    ORDER BY c.lsn DESC LIMIT {_MOVES}
"""  # noqa: S608

# Where the row that came under a key at one place ends there, or another one begins.
_ENDS = f"""
    SELECT w.number, p.* FROM unnest(%(number)s::int[], %(relation)s::bigint[],
        %(hash)s::bigint[], %(life)s::bigint[], %(lsn)s::pg_lsn[], %(seq)s::int[])
        AS w (number, relation_id, key_hash, life, lsn, seq)
    CROSS JOIN LATERAL (
        SELECT {CUT_COLUMNS}
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = w.relation_id AND c.key_hash = w.key_hash
          AND (c.lsn, c.seq) > (w.lsn, w.seq) AND c.op IN ('D', 'I')
          AND t.incarnation_id = w.life AND t.state = 'committed' AND {NOT_ABORTED}
        ORDER BY c.lsn, c.seq LIMIT 1
    ) p
"""  # noqa: S608


def read_lives(session: ReadSession, slot_id: int) -> list[Life]:
    """All lives of a slot, newest first."""
    return [Life(*row) for row in session.prepared_rows(_LIVES, [slot_id])]


class Walk:
    """One row's changes from a place on into the past."""

    def __init__(
        self,
        session: ReadSession,
        slot: Slot,
        table: TableRows,
        keys: Sequence[tuple[int, tuple[Any, ...]]],
    ) -> None:
        """``keys``: the hashes and values the row is asked for by. Raises ``KeyProblem`` where
        whoever asks may not ask that.
        """
        if reason := table.withheld(session):
            raise KeyProblem(reason)
        self.session = session
        self.slot = slot
        self.table = table
        self.keys = keys
        systems = {version.relation_id for version in table.shapes.versions.values()}
        self._relations = [each for each in table.relation_ids if each in systems]
        self.lives = read_lives(self.session, slot.pk)
        self.numbers = {life.id: life.number for life in self.lives}
        #: The newest changes, where a page of history has read them; see ``row_history``.
        self.newest: list[Step] | None = None
        #: Under which former keys the walk goes on, as of the change it gave last.
        self.open_strands: tuple[Strand, ...] = ()
        self._breaks: Breaks | None = None
        known = {values for _, values in keys}
        moves = self._read_moves({each for each, _ in keys})
        moves = [move for move in moves if table.shapes.key_before(move) in known]
        #: Moves of the row away from its key, and what ends it under the new one.
        self.moves = list(self._forward(moves))

    def at(self, step: Step) -> At:
        """A step's place in the slot's whole history."""
        return (self.numbers.get(step.incarnation_id, 0), *step.place)

    def breaks(self, steps: Sequence[Step]) -> Breaks:
        """What stands between these changes and after them.

        Where every row has a key, whatever has none is a truncation: all of them are read, once.
        """
        if self._breaks is not None:
            return self._breaks
        lives = {life.id for life in self.lives}
        if all(version.key_columns for version in self.table.shapes.versions.values()):
            self._breaks = read_breaks(self.session, self.table.relation_ids, lives, 0, OPEN_END)
            return self._breaks
        low = min((step.lsn for step in steps), default=OPEN_END)
        return read_breaks(self.session, self.table.relation_ids, lives, low, OPEN_END)

    def back(
        self,
        before: At = END,
        raw: tuple[int, int] | None = None,
        *,
        until: dt.datetime | None = None,
        strands: Sequence[Strand] = (),
        limit: int = 80,
    ) -> Iterator[Step]:
        """Every change before a place, newest first; ``until``: committed by then.

        ``raw``: an LSN and seq above which, in that life, there is nothing to look for.
        ``strands``: keys it was known by that an earlier page came to.
        """
        self.open_strands = ()
        seen: set[tuple[int, int]] = set()
        lives = [life for life in self.lives if life.number <= before[0]]
        for index in range(0, len(lives), _LIVES_AT_ONCE):
            part = lives[index : index + _LIVES_AT_ONCE]
            down = Strands(self, part, before, raw, until, limit)
            down.take_up(strands)
            for step in down.steps():
                self.open_strands = down.open_strands()
                if (step.transaction_id, step.seq) not in seen:
                    seen.add((step.transaction_id, step.seq))
                    yield step

    def _read_moves(self, hashes: Collection[int]) -> list[Step]:
        wanted = {
            "relations": list(self._relations),
            "hashes": list(hashes),
            "lives": [life.id for life in self.lives],
        }
        return (
            [
                step_of(row, self.session.visibility)
                for row in self.session.prepared_rows(_MOVED_AWAY, wanted)
            ]
            if hashes
            else []
        )

    def _forward(self, moves: list[Step]) -> Iterator[tuple[Step, Step | None]]:
        """Each move of the row away from its key, with the change that ends it under the new
        one; a few moves on.
        """
        known = {values for _, values in self.keys}
        for _ in range(3):
            if not moves:
                return
            ends = self._ends_of(moves)
            onward = self._read_moves({m.key_hash for m in moves if m.key_hash is not None})
            following = []
            for move, end in zip(moves, ends, strict=True):
                key = self.table.shapes.key_after(move)
                later = [
                    o for o in onward
                    if o.incarnation_id == move.incarnation_id and o.place > move.place
                    and self.table.shapes.key_before(o) == key
                ]  # fmt: skip
                away = min(later, key=lambda s: s.place, default=None)
                if away is not None and (end is None or away.place < end.place):
                    end = away
                    if self.table.shapes.key_after(away) not in known:
                        following.append(away)
                yield move, end
            moves = following

    def _ends_of(self, moves: Sequence[Step]) -> list[Step | None]:
        found: dict[int, Step] = {}
        wanted = {
            "number": list(range(len(moves))),
            "relation": [m.relation_id for m in moves],
            "hash": [m.key_hash for m in moves],
            "life": [m.incarnation_id for m in moves],
            "lsn": [str(LSN(m.lsn)) for m in moves],
            "seq": [m.seq for m in moves],
        }
        for row in self.session.prepared_rows(_ENDS, wanted):
            found[row[0]] = step_of(row[1 : STEP_WIDTH + 1], self.session.visibility)
        return [found.get(number) for number in range(len(moves))]
