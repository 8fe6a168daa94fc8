"""Scan a slot's history, change by change, forwards or backwards, from any place.

Searches, downloads and streams share this scan. It reads batches bounded by keys: only one batch is
in memory, no snapshot of the store is kept open, and a scan may stop at any batch and go on from
its place later.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from decoder.scalars import lsn_from_text
from replview.store.read.changes.batches import Batching, ChangeReader, Enough
from replview.store.read.changes.of_transaction import last_seq
from replview.store.read.changes.scan_places import Blocks, ScanPosition, SequenceRanges
from replview.store.read.changes.wanted import WantedChanges, scan_conditions
from replview.store.read.changes.written import StoreLines
from replview.store.read.history import transactions_where
from replview.store.read.history_places import incarnations_of
from replview.store.read.row_history.before_images import Shared
from replview.store.read.rows import ChangeRow, Incarnation, TransactionRow
from replview.store.read.session import ReadSession
from replview.store.read.transactions.conditions import Conditions, any_of

#: Transactions that are read at a time where an index finds them (by actor, origin or identifier).
_INDEXED_PAGE = 500
#: The seq of a place after a transaction's last change.
AFTER_LAST_SEQ = (1 << 31) - 1
_IN_STRETCH = sql.SQL("""
    t.incarnation_id = %(incarnation)s AND {ranges} AND {conditions}
    ORDER BY t.commit_seq {direction}
""")
_IN_RANGE = sql.SQL("t.commit_seq BETWEEN {} AND {}")
_BETWEEN = sql.SQL("""
    t.incarnation_id = %(incarnation)s AND t.commit_seq BETWEEN %(first)s AND %(last)s
    AND {conditions} {order}
""")
_INDEXED_ORDER = sql.SQL("ORDER BY t.commit_seq {direction} LIMIT {limit}")

ChangeInTransaction = tuple[TransactionRow, ChangeRow]


@dataclass(frozen=True, slots=True)
class ScanBatch:
    """The result of one step, and the place of the scan after it."""

    #: Changes that match, in scanning order.
    found: list[ChangeInTransaction]
    #: Place up to which all is done, from which the scan goes on in its direction.
    place: ScanPosition
    #: The transaction that was read last.
    row: TransactionRow | None
    #: Changes of which it is unknown whether they match, in no order.
    unknown: Sequence[ChangeInTransaction] = ()


@dataclass(slots=True)
class ChangeScan:
    """A scan over the wanted changes of one slot."""

    _session: ReadSession
    wanted: WantedChanges
    forwards: bool = True
    #: Place after which the scan goes on; None: it begins with the first (backwards: last) change.
    place: ScanPosition | None = None
    batching: Batching = field(default_factory=Batching)
    #: Number of changes after which the caller stops, set again for each batch; None: all.
    enough: int | None = None
    #: True if all is read for ``RecordWriter.line``; the store then writes some of the lines.
    as_lines: bool = False
    #: The reader of the changes; None: the scan has not begun.
    reader: ChangeReader | None = None
    _relation_ids: list[int] | None = None

    def batches(self) -> Iterator[ScanBatch]:
        """Yield the result step by step.

        Raises ``WhereProblem`` for conditions that fit no table.
        """
        self._relation_ids = self.wanted.relation_ids(self._session)
        if self._relation_ids == []:
            return
        reader = self.reader = ChangeReader(
            self._session, self.wanted, self._relation_ids, self.batching
        )
        reader.lines = StoreLines() if self.as_lines else None
        for incarnation in self._incarnations():
            for rows in self._transactions(incarnation):
                yield from self._read_changes(incarnation, rows, reader)

    def transactions(self) -> Iterator[list[TransactionRow]]:
        """Yield the transactions that may hold wanted changes, some at a time, without changes."""
        self._relation_ids = self.wanted.relation_ids(self._session)
        for incarnation in self._incarnations() if self._relation_ids != [] else ():
            yield from self._transactions(incarnation)

    def _incarnations(self) -> list[Incarnation]:
        filter_, slot, place = self.wanted.filter, self.wanted.slot, self.place
        incarnations = incarnations_of(self._session, slot.pk)
        if filter_.from_lsn is not None or filter_.to_lsn is not None:
            # LSNs compare only within one incarnation: a bound means the present one.
            incarnations = [
                incarnation for incarnation in incarnations if incarnation.id == slot.incarnation_id
            ]
        if place is not None:
            compare = operator.ge if self.forwards else operator.le
            incarnations = [
                incarnation
                for incarnation in incarnations
                if compare(incarnation.number, place.incarnation)
            ]
        return sorted(
            incarnations, key=lambda incarnation: incarnation.number, reverse=not self.forwards
        )

    def _bounds(self, incarnation: Incarnation) -> tuple[int, int]:
        """Return the first and last commit_seq of this incarnation that are still to be scanned."""
        first, last = 0, incarnation.commit_seq
        if self.place is not None and self.place.incarnation == incarnation.number:
            # The place's own transaction may have more changes.
            if self.forwards:
                first = self.place.commit_seq + (self.place.seq >= AFTER_LAST_SEQ)
            else:
                last = min(last, self.place.commit_seq - (self.place.seq <= 1))
        return first, last

    def _transactions(self, incarnation: Incarnation) -> Iterator[list[TransactionRow]]:
        conditions = scan_conditions(self._session, self.wanted, self._relation_ids)
        first, last = self._bounds(incarnation)
        if self.wanted.transaction_id is not None or conditions.by_id or conditions.indexed:
            yield from self._indexed(incarnation, conditions, first, last)
            return
        history = Blocks(self._session, incarnation, self.wanted, self._relation_ids, self.forwards)
        for stretch in history.stretches(first, last):
            ranges_sql, range_params = _ranges_sql(stretch)
            condition = _IN_STRETCH.format(
                ranges=ranges_sql, conditions=conditions.row_sql, direction=self._direction
            )
            params = {**conditions.values, **range_params, "incarnation": incarnation.id}
            yield transactions_where(self._session, condition, params)

    @property
    def _direction(self) -> sql.SQL:
        return sql.SQL("ASC" if self.forwards else "DESC")

    def _indexed(
        self, incarnation: Incarnation, conditions: Conditions, first: int, last: int
    ) -> Iterator[list[TransactionRow]]:
        """Yield the transactions that an index finds, wherever they are."""
        order = _INDEXED_ORDER.format(direction=self._direction, limit=_INDEXED_PAGE)
        condition = sql.SQL("true {}").format(order)
        rows = conditions.first_rows(_BETWEEN, order=order)
        while first <= last:
            bounds = {"incarnation": incarnation.id, "first": first, "last": last}
            params = {**conditions.values, **bounds}
            page = transactions_where(self._session, condition, params, rows)
            yield page
            if len(page) < _INDEXED_PAGE:
                return
            seq = page[-1].commit_seq or 0
            first, last = (seq + 1, last) if self.forwards else (first, seq - 1)

    def _read_changes(
        self, incarnation: Incarnation, rows: Sequence[TransactionRow], reader: ChangeReader
    ) -> Iterator[ScanBatch]:
        for group in self.batching.groups(rows):
            by_id = {row.id: row for row in group}
            if len(group) == 1 and self.batching.is_large(group[0]):
                yield from self._large(incarnation, group[0], reader)
                continue
            self._prepare_reader(reader, group)
            results = reader.read(list(by_id), enough=self._enough(incarnation, by_id))
            matching, unknown = (
                self._not_passed(incarnation, [(by_id[c.transaction_id], c) for c in changes])
                for changes in results
            )
            matching.sort(key=_place, reverse=not self.forwards)
            last = group[-1]
            seq = AFTER_LAST_SEQ if self.forwards else 0
            yield ScanBatch(
                matching, ScanPosition(incarnation.number, last.commit_seq or 0, seq), last, unknown
            )

    def _prepare_reader(self, reader: ChangeReader, rows: Sequence[TransactionRow]) -> None:
        """Give the reader the facts about these transactions; a scan to the end shares no state."""
        reader.of_several = any(row.actors for row in rows)
        if self.enough is None:
            reader.shared, reader.before = Shared(), {}
        for row in rows if self.wanted.where else ():
            reader.shared.mine[row.id] = row.incarnation_id, lsn_from_text(row.commit_lsn)

    def _enough(self, incarnation: Incarnation, by_id: dict[int, TransactionRow]) -> Enough | None:
        """Return how many changes the caller wants; None: all.

        All are read of the transaction in which the scan goes on, as it has changes that the scan
        passed.
        """
        place = self.place
        if self.enough is None or (
            place is not None
            and place.incarnation == incarnation.number
            and any(row.commit_seq == place.commit_seq for row in by_id.values())
        ):
            return None
        direction = 1 if self.forwards else -1
        seqs = {row.id: direction * (row.commit_seq or 0) for row in by_id.values()}
        return Enough(self.enough, lambda c: (seqs[c.transaction_id], direction * c.seq))

    def _not_passed(
        self, incarnation: Incarnation, changes: list[ChangeInTransaction]
    ) -> list[ChangeInTransaction]:
        """Return the changes without those that the scan had passed in its first transaction."""
        place = self.place
        if place is None or place.incarnation != incarnation.number:
            return changes
        beyond, start = operator.gt if self.forwards else operator.lt, (place.commit_seq, place.seq)
        return [pair for pair in changes if beyond(_place(pair), start)]

    def _large(
        self, incarnation: Incarnation, row: TransactionRow, reader: ChangeReader
    ) -> Iterator[ScanBatch]:
        first, last, place = 1, last_seq(self._session, row.id), self.place
        if place and place.incarnation == incarnation.number and place.commit_seq == row.commit_seq:
            first, last = (place.seq + 1, last) if self.forwards else (first, place.seq - 1)
        direction = 1 if self.forwards else -1

        def in_order(change: ChangeRow) -> tuple[int, int]:
            return 0, direction * change.seq

        while first <= last:
            width = self.batching.window(row)
            if self.forwards:
                low, high = first, min(first + width - 1, last)
                first = high + 1
            else:
                low, high = max(last - width + 1, first), last
                last = low - 1
            enough = None if self.enough is None else Enough(self.enough, in_order)
            self._prepare_reader(reader, [row])
            changes, unknown = reader.read([row.id], low, high, enough=enough)
            changes.sort(key=lambda change: change.seq, reverse=not self.forwards)
            position = ScanPosition(
                incarnation.number, row.commit_seq or 0, high if self.forwards else low
            )
            yield ScanBatch([(row, c) for c in changes], position, row, [(row, c) for c in unknown])


def before(
    changes: Iterable[ChangeInTransaction], change: ChangeInTransaction
) -> list[ChangeInTransaction]:
    """Return the changes that come before ``change`` in the slot's history."""
    end = change[0].incarnation_id, *_place(change)
    return [pair for pair in changes if (pair[0].incarnation_id, *_place(pair)) < end]


def _place(pair: ChangeInTransaction) -> tuple[int, int]:
    return pair[0].commit_seq or 0, pair[1].seq


def _ranges_sql(stretch: SequenceRanges) -> tuple[sql.Composed, dict[str, int]]:
    """Return the ranges of a stretch as SQL; adjacent ones are joined, as each is an index scan."""
    ranges: list[list[int]] = []
    for low, high in sorted(stretch):
        if ranges and ranges[-1][1] + 1 == low:
            ranges[-1][1] = high
        else:
            ranges.append([low, high])
    conditions: list[sql.Composed] = []
    params: dict[str, int] = {}
    for number, (low, high) in enumerate(ranges):
        names = f"low{number}", f"high{number}"
        params |= dict(zip(names, (low, high), strict=True))
        conditions.append(_IN_RANGE.format(*map(sql.Placeholder, names)))
    return any_of(conditions), params
