"""Replay the keys whose changes follow one another, a column at a time.

One row at a time had such a key, it did not move, and its table was not altered. These are most
keys; for the others see ``chain_replay``.
"""

import numpy as np

from replview.spark.history.replay_piece import (
    NONE,
    UNKNOWN_BEFORE,
    End,
    Kind,
    Mask,
    Numbers,
    Piece,
)
from replview.store.read.rows import OPEN_END


class SimpleReplay:
    """The replay of keys whose rows follow one another, and did not move: a column at a time."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        #: The rows, key by key.
        self._order = np.argsort(piece.key, kind="stable")
        #: The key's row before, and its change before and after.
        self._row_before, _ = _neighbours(piece.key, self._order)
        changes = self._order[piece.kind[self._order] != Kind.BEFORE]
        self._before, self._after = _neighbours(piece.key, changes)

    def _simple(self) -> Mask:
        """Return which rows are of keys that need no other replay."""
        piece, kind, there = self._piece, self._piece.kind, self._before >= 0
        hard = piece.is_carried | (there & (piece.stream == 0)) | self._is_altered()
        hard |= there & ((kind == Kind.INSERT) != (kind[self._before] == Kind.DELETE))
        stays = piece.is_pair & (piece.key == np.roll(piece.key, -1))
        moves = (kind == Kind.BEFORE) & ~stays
        hard |= moves
        hard[1:] |= (moves & piece.is_pair)[:-1]
        for lapse in piece.facts.lapses:
            since = np.where(self._row_before < 0, OPEN_END, piece.lsn[self._row_before])
            hard |= (since < lapse.to_lsn) & (lapse.from_lsn < piece.lsn)
        hard_keys = np.zeros(piece.key.max(initial=NONE) + 1, np.bool_)
        hard_keys[piece.key[hard]] = True
        return np.logical_not(hard_keys[piece.key])

    def _is_altered(self) -> Mask:
        """Return which rows come after an ALTER TABLE that changed columns."""
        version, before = self._piece.version, self._row_before
        found: Mask = (before >= 0) & (version != version[before])
        pairs = np.stack([version[before[found]], version[found]])
        for one, other in np.unique(pairs, axis=1).T.tolist():
            if not self._piece.facts.shapes.altered_between(one, other):
                found &= (version[before] != one) | (version != other)
        return found

    def run(self) -> None:
        """Set what is found of the changes of simple keys."""
        piece, kind = self._piece, self._piece.kind
        piece.is_simple = simple = self._simple()
        known = self._known()
        states = np.flatnonzero(simple & (kind != Kind.DELETE) & (kind != Kind.BEFORE))
        piece.is_state[states], piece.refs[states] = True, known[states]
        counted = simple & (kind != Kind.BEFORE) & (piece.stream == 1)
        piece.operation[counted] = kind[counted]
        piece.operation[counted & (kind == Kind.UPDATE) & (self._row_before < 0)] = UNKNOWN_BEFORE
        updates = np.flatnonzero(counted & (kind == Kind.UPDATE) & (self._row_before >= 0))
        for n in range(len(piece.facts.columns)):
            before = known[self._row_before[updates], n]
            differs = piece.digests[before, n] != piece.digests[updates, n]
            # A large value that was not sent before, and is sent now, has changed.
            differs = np.where(before < 0, self._before[updates] >= 0, differs)
            piece.changed[updates, n] = differs & piece.sent[updates, n]
        after = self._after[states]
        is_cut = piece.epoch[states] < piece.facts.truncations.num_rows
        ends = np.where(kind[after] == Kind.DELETE, End.DELETE, End.UPDATE)
        piece.end[states] = np.where(after >= 0, ends, np.where(is_cut, End.TRUNCATION, NONE))
        piece.end_row[states] = after

    def _known(self) -> Numbers:
        """Return the input rows that hold the last known values of each row, -1 where unknown."""
        piece, order = self._piece, self._order
        begins = (self._row_before[order] < 0) | (piece.kind[order] == Kind.INSERT)
        places, known = np.arange(order.size), np.empty_like(piece.refs)
        for n in range(known.shape[1]):
            sent = piece.sent[order, n]
            last = np.maximum.accumulate(np.where(sent | begins, places, 0))
            known[order, n] = np.where(sent[last], order[last], NONE)
        return known


def _neighbours(key: Numbers, order: Numbers) -> tuple[Numbers, Numbers]:
    """Return the row of the same key before and after each row of an order, else -1."""
    before, after = np.full_like(key, NONE), np.full_like(key, NONE)
    follows = np.flatnonzero(np.diff(key[order]) == 0)
    before[order[follows + 1]], after[order[follows]] = order[follows], order[follows + 1]
    return before, after
