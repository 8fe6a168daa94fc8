"""Scanning back through one row's changes, newest first, also under the keys it had before.

A chain is the changes under one key. Where a change moved a key into the chain's, the scan goes
on under the key it came from, down to where that row began; where a change moved the row away, it
is followed forward under its new key, to where it ends there.
"""

import datetime as dt
from collections.abc import Collection, Iterator, Sequence

from decoder.scalars import LSN
from replview.store.read.row_history.breaks import Breaks, read_breaks
from replview.store.read.row_history.key_chain import KeyChain, KeyChains
from replview.store.read.row_history.keys import TableRows
from replview.store.read.row_history.sought_row import END, At, Keys, SoughtRow
from replview.store.read.rows import NOT_ABORTED, OPEN_END, Slot, Step
from replview.store.read.seen import CUT_COLUMNS, step_of
from replview.store.read.session import ReadSession

#: Incarnations looked at in one query; temporary slots have an incarnation a connection.
_INCARNATIONS_AT_ONCE = 8
#: Moves of a key that are followed forward.
_MOVES = 20

_MOVED_AWAY = f"""
    SELECT {CUT_COLUMNS}
    FROM change c JOIN transaction t ON t.id = c.transaction_id
    WHERE c.relation_id = ANY(%(relations)s) AND c.old_key_hash = ANY(%(hashes)s)
      AND t.incarnation_id = ANY(%(incarnations)s) AND t.state = 'committed' AND {NOT_ABORTED}
    ORDER BY c.lsn DESC LIMIT {_MOVES}
"""  # noqa: S608

# Where the row that came under a key at one place ends there, or another one begins.
_ENDS = f"""
    SELECT w.number, p.* FROM unnest(%(number)s::int[], %(relation)s::bigint[],
        %(hash)s::bigint[], %(incarnation)s::bigint[], %(lsn)s::pg_lsn[], %(seq)s::int[])
        AS w (number, relation_id, key_hash, incarnation, lsn, seq)
    CROSS JOIN LATERAL (
        SELECT {CUT_COLUMNS}
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = w.relation_id AND c.key_hash = w.key_hash
          AND (c.lsn, c.seq) > (w.lsn, w.seq) AND c.op IN ('D', 'I')
          AND t.incarnation_id = w.incarnation AND t.state = 'committed' AND {NOT_ABORTED}
        ORDER BY c.lsn, c.seq LIMIT 1
    ) p
"""  # noqa: S608


class BackwardScan(SoughtRow):
    """One row's changes from a place on into the past."""

    def __init__(self, session: ReadSession, slot: Slot, table: TableRows, keys: Keys) -> None:
        """Raises ``KeyProblem`` where whoever asks may not look for rows by these keys."""
        super().__init__(session, slot, table, keys)
        #: The newest changes, where a page of history has read them; see ``row_history``.
        self.newest: list[Step] | None = None
        #: Under which former keys the scan goes on, as of the change it gave last.
        self.open_chains: tuple[KeyChain, ...] = ()
        self._breaks: Breaks | None = None
        known = {values for _, values in keys}
        moves = self._read_moves({each for each, _ in keys})
        moves = [move for move in moves if table.shapes.key_before(move) in known]
        self.moves = list(self._forward(moves))

    def breaks(self, steps: Sequence[Step]) -> Breaks:
        """What stands between these changes and after them. Where every row has a key, whatever has
        none is a truncation: all of them are read, once.
        """
        if self._breaks is not None:
            return self._breaks
        ids, tables = {each.id for each in self.incarnations}, self.table.relation_ids
        if all(version.key_columns for version in self.table.shapes.versions.values()):
            self._breaks = read_breaks(self.session, tables, ids, 0, OPEN_END)
            return self._breaks
        low = min((step.lsn for step in steps), default=OPEN_END)
        return read_breaks(self.session, tables, ids, low, OPEN_END)

    def back(
        self,
        before: At = END,
        raw: tuple[int, int] | None = None,
        *,
        until: dt.datetime | None = None,
        chains: Sequence[KeyChain] = (),
        limit: int = 80,
    ) -> Iterator[Step]:
        """Every change before a place, newest first; ``until``: committed by then.

        ``raw``: an LSN and seq above which, in that incarnation, there is nothing to look for.
        ``chains``: keys it was known by that an earlier page came to.
        """
        self.open_chains = ()
        seen: set[tuple[int, int]] = set()
        incarnations = [each for each in self.incarnations if each.number <= before[0]]
        for index in range(0, len(incarnations), _INCARNATIONS_AT_ONCE):
            part = incarnations[index : index + _INCARNATIONS_AT_ONCE]
            down = KeyChains(self, part, before, raw, until, limit, chains)
            for step in down.steps():
                self.open_chains = down.open_chains()
                if (step.transaction_id, step.seq) not in seen:
                    seen.add((step.transaction_id, step.seq))
                    yield step

    def _read_moves(self, hashes: Collection[int]) -> list[Step]:
        if not hashes:
            return []
        wanted = {
            "relations": list(self.relation_ids),
            "hashes": list(hashes),
            "incarnations": [each.id for each in self.incarnations],
        }
        found = self.session.prepared_rows(_MOVED_AWAY, wanted)
        return [step_of(row, self.session.visibility) for row in found]

    def _forward(self, moves: list[Step]) -> Iterator[tuple[Step, Step | None]]:
        """Each move of the row away from its key, with what ends it under the new one; a few on."""
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
        wanted = {
            "number": list(range(len(moves))),
            "relation": [m.relation_id for m in moves],
            "hash": [m.key_hash for m in moves],
            "incarnation": [m.incarnation_id for m in moves],
            "lsn": [str(LSN(m.lsn)) for m in moves],
            "seq": [m.seq for m in moves],
        }
        found = {
            row[0]: step_of(row[1:], self.session.visibility)
            for row in self.session.prepared_rows(_ENDS, wanted)
        }
        return [found.get(number) for number in range(len(moves))]
