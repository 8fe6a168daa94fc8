"""The changes of a row under one key, and several such chains merged, newest first.

Where a change moved a key into a chain's, a chain of the former key begins, down to where that
row began.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from decoder.scalars import LSN
from replview.store.read.row_history.sought_row import At, IncarnationFacts, SoughtRow
from replview.store.read.rows import NOT_ABORTED, OPEN_END, Step
from replview.store.read.seen import CUT_COLUMNS, step_of

#: Each read asks for twice as many changes, up to so many: a search goes far back in few of them.
_MOST_READ = 640

# What baselines read under a key is looked for once: it is few, and stands by its position.
_BACK = f"""
    WITH w AS MATERIALIZED (
        SELECT * FROM unnest(%(number)s::int[], %(relation)s::bigint[], %(hash)s::bigint[],
            %(incarnation)s::bigint[], %(lsn)s::pg_lsn[], %(seq)s::int[], %(fresh)s::bool[])
            AS w (number, relation_id, key_hash, incarnation, lsn, seq, fresh)
    )
    SELECT w.number, p.* FROM w CROSS JOIN LATERAL (
        SELECT {CUT_COLUMNS}
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = w.relation_id AND c.key_hash = w.key_hash
          AND (c.lsn, c.seq) < (w.lsn, w.seq) AND c.op <> 'S'
          AND t.incarnation_id = w.incarnation AND t.state = 'committed'
          AND (%(until)s::timestamptz IS NULL OR t.commit_time <= %(until)s::timestamptz)
          AND {NOT_ABORTED}
        ORDER BY c.lsn DESC, c.seq DESC LIMIT %(limit)s
    ) p
    UNION ALL
    SELECT w.number, p.* FROM w CROSS JOIN LATERAL (
        SELECT {CUT_COLUMNS}
        FROM baseline b JOIN transaction t ON t.id = b.transaction_id AND t.state = 'snapshot'
        JOIN change c ON c.transaction_id = b.transaction_id
        WHERE b.slot_id = %(slot)s AND t.incarnation_id = w.incarnation AND c.op = 'S'
          AND c.relation_id = w.relation_id AND c.key_hash = w.key_hash
          AND (%(until)s::timestamptz IS NULL
               OR coalesce(t.commit_time, t.received_at) <= %(until)s::timestamptz)
        ORDER BY b.id DESC LIMIT 100
    ) p WHERE w.fresh
"""  # noqa: S608 (nothing but the store's own columns)


@dataclass(slots=True)
class KeyChain:
    """The changes under one key of one relation, in one incarnation, as far as they were read."""

    relation_id: int
    key: tuple[Any, ...]
    key_hash: int
    incarnation: IncarnationFacts
    #: Read on below this LSN and seq.
    lsn: int
    seq: int
    #: Only what is strictly between these places.
    above: At | None = None
    below: At | None = None
    #: Ends where the row under this key began.
    one_row: bool = False
    exhausted: bool = False
    #: Nothing was read of it yet.
    fresh: bool = True
    #: Newest first.
    steps: list[Step] = field(default_factory=list)
    #: What baselines read under this key.
    snapshots: list[Step] = field(default_factory=list)


class KeyChains:
    """The chains of some incarnations of the slot, merged."""

    def __init__(
        self,
        row: SoughtRow,
        incarnations: Sequence[IncarnationFacts],
        before: At,
        raw: tuple[int, int] | None,
        until: dt.datetime | None,
        limit: int,
        former: Sequence[KeyChain] = (),
    ) -> None:
        """``former``: chains of former keys to go on under, where an earlier page left off."""
        self._row = row
        self._before = before
        self._until = until
        #: Changes of a chain that the next read asks for.
        self._limit = limit
        self._incarnations = {each.id: each for each in incarnations}
        self._chains: list[KeyChain] = []
        for incarnation in incarnations:
            lsn, seq = raw if raw is not None and incarnation.number == before[0] else (OPEN_END, 0)
            for relation_id in row.relation_ids:
                for key_hash, key in row.keys:
                    self._chains.append(KeyChain(relation_id, key, key_hash, incarnation, lsn, seq))
        for move, end in row.moves:
            self._add_forward(move, end)
        self._chains += [each for each in former if each.incarnation.id in self._incarnations]
        self._moves = sorted(
            (
                move
                for move, _ in row.moves
                if move.incarnation_id in self._incarnations
                and row.at(move) < before
                and (until is None or move.commit_time is None or move.commit_time <= until)
            ),
            key=row.at,
        )

    def open_chains(self) -> tuple[KeyChain, ...]:
        """The former keys it goes on under."""
        return tuple(s for s in self._chains if s.one_row and not (s.exhausted and not s.steps))

    def _add_forward(self, move: Step, end: Step | None) -> None:
        """The row after it was moved away, up to its end (which a move further on is itself)."""
        incarnation = self._incarnations.get(move.incarnation_id)
        key = self._row.table.shapes.key_after(move)
        if incarnation is None or key is None or move.key_hash is None:
            return
        chain = KeyChain(move.relation_id, key, move.key_hash, incarnation, OPEN_END, 0)
        chain.above = self._row.at(move)
        if end is not None:
            place = self._row.at(end)
            # A deletion is the row's own last change; an insert is another row's first.
            chain.below = (*place[:4], place[4] + 1) if end.op == "D" else place
            chain.lsn, chain.seq = end.lsn, end.seq + (end.op == "D")
        self._chains.append(chain)

    def _newest(self) -> tuple[At, list[Step], KeyChain | None] | None:
        """The place of the newest change in hand, and the list it is the head of."""
        at = self._row.at
        heads: list[tuple[At, list[Step], KeyChain | None]] = [
            (at(each[0]), each, chain)
            for chain in self._chains
            for each in (chain.steps, chain.snapshots)
            if each
        ]
        if self._moves:
            heads.append((at(self._moves[-1]), self._moves, None))
        return max(heads, key=lambda head: head[0], default=None)

    def steps(self) -> Iterator[Step]:
        """Newest first."""
        while True:
            self._refill()
            newest = self._newest()
            if newest is None:
                return
            _, steps, chain = newest
            if chain is None:
                yield steps.pop()
                continue
            step = steps.pop(0)
            if chain.one_row and step.op == "D":
                # The row that came here began after this one ended: its beginning is not recorded.
                self._close(chain)
                continue
            self._branch(chain, step)
            yield step

    def _close(self, chain: KeyChain) -> None:
        chain.exhausted, chain.steps, chain.snapshots = True, [], []

    def _branch(self, chain: KeyChain, step: Step) -> None:
        """What follows for the chains from a step of one of them."""
        moved_in = step.old_key_hash is not None
        if chain.one_row and (moved_in or step.op == "I"):
            self._close(chain)
        if not moved_in:
            return
        key = self._row.table.shapes.key_before(step)
        if key is None or key in {each for _, each in self._row.keys}:
            return
        assert step.old_key_hash is not None
        before = KeyChain(
            step.relation_id, key, step.old_key_hash, chain.incarnation, step.lsn, step.seq
        )
        before.below, before.one_row = self._row.at(step), True
        self._chains.append(before)

    def _refill(self) -> None:
        """Read on wherever a chain has nothing left in hand."""
        while asked := [s for s in self._chains if not s.steps and not s.exhausted]:
            wanted = {
                "number": list(range(len(asked))),
                "relation": [s.relation_id for s in asked],
                "hash": [s.key_hash for s in asked],
                "incarnation": [s.incarnation.id for s in asked],
                "lsn": [str(LSN(s.lsn)) for s in asked],
                "seq": [s.seq for s in asked],
                "fresh": [s.fresh for s in asked],
                "until": self._until,
                "limit": self._limit,
                "slot": self._row.slot.pk,
            }
            counted = [0] * len(asked)
            for row in self._row.session.prepared_rows(_BACK, wanted):
                chain, step = asked[row[0]], step_of(row[1:], self._row.session.visibility)
                in_hand = chain.snapshots if step.op == "S" else chain.steps
                if step.op != "S":
                    counted[row[0]] += 1
                    chain.lsn, chain.seq = step.lsn, step.seq
                if self._belongs(chain, step):
                    in_hand.append(step)
            for chain, number in zip(asked, counted, strict=True):
                chain.exhausted, chain.fresh = number < self._limit, False
                chain.snapshots.sort(key=self._row.at, reverse=True)
            self._limit = min(2 * self._limit, _MOST_READ)

    def _belongs(self, chain: KeyChain, step: Step) -> bool:
        place = self._row.at(step)
        return (
            place < self._before
            and (chain.above is None or place > chain.above)
            and (chain.below is None or place < chain.below)
            and self._row.table.shapes.key_after(step) == chain.key
        )
