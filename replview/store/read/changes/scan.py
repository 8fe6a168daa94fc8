"""Scanning a slot's history, change by change, forwards or backwards, from any place.

One scan is behind searches, downloads and streams. It reads in batches cut by keys, so that nothing
is held but a batch, no snapshot of the store is kept open, and whoever scans may stop at any batch
and go on from its place later.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from decoder.scalars import LSN
from replview.store.read.changes.batches import Batching, ChangeReader, Enough
from replview.store.read.changes.of_transaction import last_seq
from replview.store.read.changes.scan_places import Blocks, Place, Stretch
from replview.store.read.changes.wanted import (
    WantedChanges,
    conditions_on_transactions,
    transaction_sql,
)
from replview.store.read.changes.written import StoreLines
from replview.store.read.history import transactions_where
from replview.store.read.history_places import incarnations_of
from replview.store.read.row_history.before_images import Shared
from replview.store.read.rows import ChangeRow, Incarnation, TransactionRow
from replview.store.read.session import ReadSession
from replview.store.read.transactions.conditions import Conditions

#: Transactions of an actor, an origin or of one number read at a time.
_INDEXED_PAGE = 500
#: In a place: behind a transaction's last change.
ALL_OF_IT = (1 << 31) - 1

Found = tuple[TransactionRow, ChangeRow]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step found, and where the scan then stands."""

    #: In scanning order.
    found: list[Found]
    #: All up to here is done: the scan goes on behind it, in its direction.
    place: Place
    #: The transaction that was looked at last.
    row: TransactionRow | None
    #: Changes of which nobody knows whether they match, in no order.
    unknown: Sequence[Found] = ()


@dataclass(slots=True)
class ChangeScan:
    _session: ReadSession
    wanted: WantedChanges
    forwards: bool = True
    #: Go on behind this place.
    place: Place | None = None
    batching: Batching = field(default_factory=Batching)
    #: Whoever scans stops after so many more; None: it goes to the end. Said anew for each batch.
    enough: int | None = None
    #: Whoever scans wants all of it for ``RecordWriter.line``, of which the store writes some.
    as_lines: bool = False
    #: What reads the changes, once the scan has begun.
    reader: ChangeReader | None = None
    _relation_ids: list[int] | None = None

    def batches(self) -> Iterator[Batch]:
        """The scan, step by step. Raises ``WhereProblem`` for conditions that fit no table."""
        self._relation_ids = self.wanted.relation_ids(self._session)
        if self._relation_ids == []:
            return
        reader = self.reader = ChangeReader(
            self._session, self.wanted, self._relation_ids, self.batching
        )
        reader.lines = StoreLines() if self.as_lines else None
        for incarnation in self._incarnations():
            for rows in self._transactions(incarnation):
                yield from self._of(incarnation, rows, reader)

    def transactions(self) -> Iterator[list[TransactionRow]]:
        """The transactions that may hold something wanted, some at a time, without changes."""
        self._relation_ids = self.wanted.relation_ids(self._session)
        for incarnation in self._incarnations() if self._relation_ids != [] else ():
            yield from self._transactions(incarnation)

    def _incarnations(self) -> list[Incarnation]:
        asked, slot, place = self.wanted.filter, self.wanted.slot, self.place
        found = incarnations_of(self._session, slot.pk)
        if asked.from_lsn is not None or asked.to_lsn is not None:
            # Positions compare only within one incarnation: a bound means the present one.
            found = [each for each in found if each.id == slot.incarnation_id]
        if place is not None:
            behind = operator.ge if self.forwards else operator.le
            found = [each for each in found if behind(each.number, place.incarnation)]
        return sorted(found, key=lambda each: each.number, reverse=not self.forwards)

    def _bounds(self, incarnation: Incarnation) -> tuple[int, int]:
        """The first and last place of this incarnation still to be scanned."""
        first, last = 0, incarnation.commit_seq
        if self.place is not None and self.place.incarnation == incarnation.number:
            # The place's own transaction may have more.
            if self.forwards:
                first = self.place.commit_seq + (self.place.seq >= ALL_OF_IT)
            else:
                last = min(last, self.place.commit_seq - (self.place.seq <= 1))
        return first, last

    def _transactions(self, incarnation: Incarnation) -> Iterator[list[TransactionRow]]:
        conditions, values = transaction_sql(self._session, self.wanted, self._relation_ids)
        first, last = self._bounds(incarnation)
        found = conditions_on_transactions(self._session, self.wanted)
        if self.wanted.transaction_id is not None or found.by_id or found.indexed:
            yield from self._indexed(incarnation, conditions, values, first, last, found)
            return
        history = Blocks(self._session, incarnation, self.wanted, self._relation_ids, self.forwards)
        for stretch in history.stretches(first, last):
            between, more = _between(stretch)
            yield transactions_where(
                self._session,
                f"t.incarnation_id = %(incarnation)s AND ({between}) AND {conditions} "
                f"ORDER BY t.commit_seq {self._direction}",
                {**values, **more, "incarnation": incarnation.id},
            )

    @property
    def _direction(self) -> str:
        return "ASC" if self.forwards else "DESC"

    def _indexed(
        self,
        incarnation: Incarnation,
        conditions: str,
        values: dict[str, Any],
        first: int,
        last: int,
        found: Conditions,
    ) -> Iterator[list[TransactionRow]]:
        """Those that an index finds wherever they are."""
        order = f"ORDER BY t.commit_seq {self._direction} LIMIT {_INDEXED_PAGE}"
        rows = found.first_rows(
            "t.incarnation_id = %(incarnation)s AND t.commit_seq BETWEEN %(first)s AND %(last)s "
            f"AND {conditions} {order}"
        )
        while first <= last:
            bounds = {"incarnation": incarnation.id, "first": first, "last": last}
            page = transactions_where(self._session, f"true {order}", {**values, **bounds}, rows)
            yield page
            if len(page) < _INDEXED_PAGE:
                return
            seq = page[-1].commit_seq or 0
            first, last = (seq + 1, last) if self.forwards else (first, seq - 1)

    def _of(
        self, incarnation: Incarnation, rows: Sequence[TransactionRow], reader: ChangeReader
    ) -> Iterator[Batch]:
        for group in self.batching.groups(rows):
            by_id = {row.id: row for row in group}
            if len(group) == 1 and self.batching.is_large(group[0]):
                yield from self._large(incarnation, group[0], reader)
                continue
            self._tell(reader, group)
            both = reader.read(list(by_id), enough=self._enough(incarnation, by_id))
            found, unknown = (
                self._behind(incarnation, [(by_id[c.transaction_id], c) for c in changes])
                for changes in both
            )
            found.sort(key=_place, reverse=not self.forwards)
            last = group[-1]
            seq = ALL_OF_IT if self.forwards else 0
            yield Batch(found, Place(incarnation.number, last.commit_seq or 0, seq), last, unknown)

    def _tell(self, reader: ChangeReader, rows: Sequence[TransactionRow]) -> None:
        """What reads ask of transactions; a scan to the end keeps nothing between reads."""
        reader.of_several = any(row.actors for row in rows)
        if self.enough is None:
            reader.shared, reader.before = Shared(), {}
        for row in rows if self.wanted.where else ():
            commit = None if row.commit_lsn is None else int(LSN.parse(row.commit_lsn))
            reader.shared.mine[row.id] = row.incarnation_id, commit

    def _enough(self, incarnation: Incarnation, by_id: dict[int, TransactionRow]) -> Enough | None:
        """How many of a read are wanted; all of one that has changes the scan had passed."""
        here = self.place
        if self.enough is None or (
            here is not None
            and here.incarnation == incarnation.number
            and any(row.commit_seq == here.commit_seq for row in by_id.values())
        ):
            return None
        sign = 1 if self.forwards else -1
        seqs = {row.id: sign * (row.commit_seq or 0) for row in by_id.values()}
        return Enough(self.enough, lambda c: (seqs[c.transaction_id], sign * c.seq))

    def _behind(self, incarnation: Incarnation, found: list[Found]) -> list[Found]:
        """Without what the scan had passed in the transaction it goes on with."""
        place = self.place
        if place is None or place.incarnation != incarnation.number:
            return found
        behind, here = operator.gt if self.forwards else operator.lt, (place.commit_seq, place.seq)
        return [pair for pair in found if behind(_place(pair), here)]

    def _large(
        self, incarnation: Incarnation, row: TransactionRow, reader: ChangeReader
    ) -> Iterator[Batch]:
        first, last, place = 1, last_seq(self._session, row.id), self.place
        if place and place.incarnation == incarnation.number and place.commit_seq == row.commit_seq:
            first, last = (place.seq + 1, last) if self.forwards else (first, place.seq - 1)
        sign = 1 if self.forwards else -1

        def in_order(change: ChangeRow) -> tuple[int, int]:
            return 0, sign * change.seq

        while first <= last:
            width = self.batching.window(row)
            if self.forwards:
                low, high = first, min(first + width - 1, last)
                first = high + 1
            else:
                low, high = max(last - width + 1, first), last
                last = low - 1
            enough = None if self.enough is None else Enough(self.enough, in_order)
            self._tell(reader, [row])
            changes, unknown = reader.read([row.id], low, high, enough=enough)
            changes.sort(key=lambda change: change.seq, reverse=not self.forwards)
            stands = Place(incarnation.number, row.commit_seq or 0, high if self.forwards else low)
            yield Batch([(row, c) for c in changes], stands, row, [(row, c) for c in unknown])


def before(changes: Iterable[Found], found: Found) -> list[Found]:
    """Those that come before this one in the slot's history."""
    end = found[0].incarnation_id, *_place(found)
    return [each for each in changes if (each[0].incarnation_id, *_place(each)) < end]


def _place(found: Found) -> tuple[int, int]:
    return found[0].commit_seq or 0, found[1].seq


def _between(stretch: Stretch) -> tuple[str, dict[str, int]]:
    """The stretch's ranges as SQL, neighbours in one: each is a scan of the index."""
    joined: list[list[int]] = []
    for low, high in sorted(stretch):
        if joined and joined[-1][1] + 1 == low:
            joined[-1][1] = high
        else:
            joined.append([low, high])
    values: dict[str, int] = {}
    for number, (low, high) in enumerate(joined):
        values |= {f"low{number}": low, f"high{number}": high}
    parts = (f"t.commit_seq BETWEEN %(low{n})s AND %(high{n})s" for n in range(len(joined)))
    return " OR ".join(parts), values
