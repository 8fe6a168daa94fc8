"""Ranges of places in history that may hold wanted changes, in scanning order.

They come from the sums of whole blocks (``store.sums.activity``), by table and time. Places that
are not in the sums yet are ranges of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from psycopg import sql

from replview.store.read.changes.wanted import WantedChanges, conditions_on_transactions
from replview.store.read.history_places import BLOCK
from replview.store.read.rows import Incarnation
from replview.store.read.session import ReadSession
from replview.store.read.transactions.filter_values import OPERATIONS
from replview.text.parsing import whole_number

#: Blocks that are read from the sums at a time.
_BLOCKS_AT_ONCE = 500
#: Transactions in a stretch of several blocks, about; and blocks in a stretch at most.
_STRETCH_TRANSACTIONS = 1000
_STRETCH_BLOCKS = 100
_COLUMNS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages",
            "S": "snapshots"}  # fmt: skip
_BLOCKS = sql.SQL("""
    SELECT b.block, b.transactions FROM history_block b
    WHERE b.incarnation_id = %(incarnation)s AND b.block BETWEEN %(first)s AND %(last)s
      AND {conditions}
    ORDER BY b.block {order} LIMIT {limit}
""")
_BLOCKS_OF_TABLES = sql.SQL("""
    SELECT a.block, sum(a.transactions)::bigint FROM relation_activity a
    JOIN history_block b ON b.incarnation_id = a.incarnation_id AND b.block = a.block
    WHERE a.relation_id = ANY(%(relations)s) AND a.incarnation_id = %(incarnation)s
      AND a.block BETWEEN %(first)s AND %(last)s AND {touched} AND {conditions}
    GROUP BY a.block ORDER BY a.block {order} LIMIT {limit}
""")

#: Places of one incarnation to read together: (first, last) ranges of commit_seq.
SequenceRanges = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, order=True)
class ScanPosition:
    """A change's place in a slot's history; a seq of 0 is before the first of its transaction."""

    #: The incarnation's number.
    incarnation: int
    commit_seq: int
    seq: int

    @classmethod
    def parse(cls, text: str) -> "ScanPosition | None":
        """Read a place from ``1-41-3``; None where the text is none."""
        match [whole_number(number_text) for number_text in text.split("-")]:
            case [int(number), int(commit_seq), int(seq)]:
                return cls(number, commit_seq, seq)
        return None

    def __str__(self) -> str:
        return f"{self.incarnation}-{self.commit_seq}-{self.seq}"


@dataclass(frozen=True, slots=True)
class Blocks:
    """One incarnation's history, for wanted changes of these tables (None: of all)."""

    session: ReadSession
    incarnation: Incarnation
    wanted: WantedChanges
    relation_ids: list[int] | None
    forwards: bool

    def stretches(self, first: int, last: int) -> Iterator[SequenceRanges]:
        """Yield all stretches between ``first`` and ``last`` that may hold something wanted."""
        mark = "SELECT rolled_seq FROM activity_mark WHERE incarnation_id = %s"
        rolled = next((row[0] for row in self.session.rows(mark, [self.incarnation.id])), 0)
        parts = (
            self._summed_stretches(first, min(last, rolled)),
            self._fixed_stretches(max(first, rolled + 1), last),
        )
        return chain.from_iterable(parts if self.forwards else reversed(parts))

    def _fixed_stretches(self, first: int, last: int) -> Iterator[SequenceRanges]:
        """Yield stretches of a block's length each."""
        if self.forwards:
            for low in range(first, last + 1, BLOCK):
                yield [(low, min(low + BLOCK - 1, last))]
        else:
            for high in range(last, first - 1, -BLOCK):
                yield [(max(high - BLOCK + 1, first), high)]

    def _summed_stretches(self, first: int, last: int) -> Iterator[SequenceRanges]:
        """Yield stretches of blocks that may match, several small ones together."""
        ranges: SequenceRanges = []
        size = 0
        while first <= last:
            blocks = self._read(first, last)
            for block, transactions in blocks:
                ranges.append((max(first, block * BLOCK), min(last, block * BLOCK + BLOCK - 1)))
                size += transactions
                if size >= _STRETCH_TRANSACTIONS or len(ranges) >= _STRETCH_BLOCKS:
                    yield ranges
                    ranges, size = [], 0
            if len(blocks) < _BLOCKS_AT_ONCE:
                break
            if self.forwards:
                first = (blocks[-1][0] + 1) * BLOCK
            else:
                last = blocks[-1][0] * BLOCK - 1
        if ranges:
            yield ranges

    def _read(self, first: int, last: int) -> list[tuple[Any, ...]]:
        """Return ``[(block, transactions)]`` in scanning order."""
        conditions = conditions_on_transactions(self.session, self.wanted)
        query = (_BLOCKS if self.relation_ids is None else _BLOCKS_OF_TABLES).format(
            touched=_touched(self.wanted),
            conditions=conditions.block_sql,
            order=sql.SQL("ASC" if self.forwards else "DESC"),
            limit=_BLOCKS_AT_ONCE,
        )
        places = {"first": first // BLOCK, "last": last // BLOCK, "relations": self.relation_ids}
        return self.session.rows(
            query, {**conditions.values, **places, "incarnation": self.incarnation.id}
        )


def _touched(wanted: WantedChanges) -> sql.Composable:
    """Return the condition that a block has wanted operations; true where all are wanted."""
    if wanted.filter.ops == OPERATIONS and not wanted.where:
        return sql.SQL("true")
    counters = [sql.Identifier("a", _COLUMNS[op]) for op in wanted.ops if op != "M"]
    if not counters:
        return sql.SQL("false")
    return sql.SQL("{} > 0").format(sql.SQL(" + ").join(counters))
