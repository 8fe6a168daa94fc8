"""Sources of a list of transactions, each with its own order.

They are an incarnation's history, the transactions that ended without a commit_seq, and the open
ones. ``store.read.transactions.listing`` merges them.
"""

import datetime as dt
from collections import deque
from dataclasses import dataclass, field
from itertools import accumulate

from replview.store.read.history_places import BLOCK, IncarnationPlaces
from replview.store.read.rows import TransactionRow

#: A place among transactions without a commit_seq: (time, identifier).
TimePosition = tuple[dt.datetime, int]
LONG_AGO = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: First and last commit_seq of a range.
SequenceRange = tuple[int, int]

#: Places that the first statement reads; the next read more or less, by the time it took.
FIRST_CHUNK = 16 * BLOCK
FIRST_CHUNK_OF_VALUES = 500
_LARGEST_CHUNK = 1000 * BLOCK
SMALLEST_CHUNK = 50
_TARGET_SECONDS = 0.06
#: Ranges that one statement reads at most.
_RANGES = 200
#: Places that may be read beyond a chunk to fill the page, where the content of blocks is known.
_FULL_PAGE = 48 * BLOCK
#: Share of the expected rows below which expected numbers are no longer used.
_TRUSTED_SHARE = 0.25


@dataclass(slots=True, eq=False)
class Stream:
    """Rows that were read, in reading order, and whether there are more."""

    backwards: bool
    #: Orders rows of the same moment.
    rank: int
    rows: deque[tuple[dt.datetime, TransactionRow]] = field(default_factory=deque, kw_only=True)
    exhausted: bool = field(default=False, kw_only=True)

    @property
    def needs_rows(self) -> bool:
        """Return whether rows must be read before the next one is known."""
        return not self.rows and not self.exhausted

    def give(self) -> TransactionRow:
        """Remove and return the next row."""
        return self.rows.popleft()[1]

    def _append(self, rows: list[tuple[dt.datetime, TransactionRow]]) -> None:
        """Add rows; read backwards, a row gets no later time than the rows newer than it."""
        if self.backwards:
            moments = list(accumulate((moment for moment, _ in reversed(rows)), min))[::-1]
            rows = [(moment, row) for moment, (_, row) in zip(moments, rows, strict=True)]
        self.rows.extend(rows)


@dataclass(slots=True, eq=False)
class PlacedStream(Stream):
    """The history of one incarnation, from a place on (``cut``: rows before it are older)."""

    incarnation: IncarnationPlaces
    cut: int | None = None
    #: True if rows are searched for in ``blocks``, the blocks that may hold some, in reading order.
    searches: bool = False
    blocks: deque[int] = field(default_factory=deque)
    #: Expected rows of each block, where known; in ``expected_rows`` those of the last statement.
    expected: dict[int, float] = field(default_factory=dict)
    expected_rows: float = 0.0
    #: True if ``blocks`` was cut off because there were too many.
    blocks_cut: bool = False
    #: First and last place that was not read yet.
    low: int = 1
    high: int = 0
    chunk: int = FIRST_CHUNK

    def __post_init__(self) -> None:
        self.high = self.incarnation.commit_seq
        if self.backwards:
            self.low = self.high + 1 if self.cut is None else max(self.cut, 1)
        elif self.cut is not None:
            self.high = min(self.high, self.cut - 1)
        self.exhausted = self.low > self.high

    def begin(self, *, reads_values: bool, indexed: bool) -> None:
        """Choose the size of the first chunk by the cost of reading a row."""
        if reads_values:
            self.chunk = FIRST_CHUNK_OF_VALUES
        elif indexed:
            self.chunk = 12 * FIRST_CHUNK

    def next_ranges(self, row_target: int) -> list[SequenceRange]:
        """Return the ranges to read next, in reading order, to find ``row_target`` rows."""
        if not self.searches:
            return [(self.low, self.high)]
        ranges: list[SequenceRange] = []
        remaining, expected_rows = self.chunk, 0.0
        for block in self.blocks:
            low = max(block * BLOCK, self.low)
            high = min(block * BLOCK + BLOCK - 1, self.high)
            if low > high:
                continue
            chunk_spent = remaining <= (-_FULL_PAGE if self.expected else 0)
            if chunk_spent or len(ranges) >= _RANGES or expected_rows >= row_target:
                break
            room = remaining if remaining > 0 else BLOCK
            if high - low >= room:
                low, high = (low, low + room - 1) if self.backwards else (high - room + 1, high)
            remaining -= high - low + 1
            # A block's rows may lie anywhere in it.
            expected_rows += self.expected.get(block, 0.0) * (high - low + 1) / BLOCK
            if ranges and high == ranges[-1][0] - 1:
                ranges[-1] = (low, ranges[-1][1])
            elif ranges and low == ranges[-1][1] + 1:
                ranges[-1] = (ranges[-1][0], high)
            else:
                ranges.append((low, high))
        self.expected_rows = expected_rows
        return ranges

    def take(
        self,
        ranges: list[SequenceRange],
        rows_of_ranges: list[list[tuple[dt.datetime, TransactionRow]]],
        limit: int,
    ) -> None:
        """Add the rows of each range; a range with ``limit`` rows may have more."""
        taken: list[tuple[dt.datetime, TransactionRow]] = []
        for (low, high), rows in zip(ranges, rows_of_ranges, strict=True):
            taken += rows
            if len(rows) >= limit:
                last = rows[-1][1].commit_seq or 0
                self._advance(last, last)
                break
            self._advance(low, high)
        if not self.searches and len(rows_of_ranges[0]) < limit:
            self.exhausted = True
        if self.expected:
            self._correct(len(taken))
        self._append(taken)
        self.settle()

    def _correct(self, number: int) -> None:
        """Scale the expected rows of the remaining blocks by the share that was found."""
        share = number / self.expected_rows if self.expected_rows else 0.0
        if share < _TRUSTED_SHARE:
            self.expected.clear()
        elif share < 1:
            self.expected = {block: share * rows for block, rows in self.expected.items()}

    def _advance(self, low: int, high: int) -> None:
        if self.backwards:
            self.low = high + 1
        else:
            self.high = low - 1
        self.exhausted = self.low > self.high

    def settle(self) -> None:
        """Drop the blocks that were read; the stream is exhausted when none is left."""
        if not self.searches or self.exhausted:
            return
        while self.blocks:
            block = self.blocks[0]
            if block * BLOCK <= self.high and block * BLOCK + BLOCK - 1 >= self.low:
                return
            self.blocks.popleft()
        if not self.blocks_cut:
            self.exhausted = True

    def pace(self, seconds: float) -> None:
        """Set the size of the next chunk by the seconds that the last statement took."""
        factor = min(max(_TARGET_SECONDS / max(seconds, 0.001), 0.25), 16.0)
        self.chunk = int(min(max(self.chunk * factor, SMALLEST_CHUNK), _LARGEST_CHUNK))

    @property
    def next_cut(self) -> int:
        """Return the commit_seq between what was given out or read and the rest."""
        if self.rows:
            seq = self.rows[0][1].commit_seq or 0
            return seq if self.backwards else seq + 1
        if self.exhausted:
            return self.incarnation.commit_seq + 1 if self.backwards else 1
        return self.low if self.backwards else self.high + 1


@dataclass(slots=True, eq=False)
class UnplacedStream(Stream):
    """Transactions of an incarnation that ended without a commit_seq, or (None) open ones."""

    incarnation: IncarnationPlaces | None
    cut: TimePosition | None
    #: Place from which reading goes on: before it, or backwards from it on.
    at: TimePosition | None = None
    #: The moment that orders each row, by transaction identifier.
    _marks: dict[int, dt.datetime] = field(default_factory=dict)
    _given: TimePosition | None = None

    def __post_init__(self) -> None:
        self.at = self.cut
        self.exhausted = self.backwards and self.cut is None

    def take(self, rows: list[tuple[dt.datetime, dt.datetime, TransactionRow]], limit: int) -> None:
        """Add rows, each with the moment it is shown at and the one it is ordered by."""
        self.exhausted = len(rows) < limit
        for _, mark, row in rows:
            self._marks[row.id] = mark
            self.at = (mark, row.id + self.backwards)
        self._append([(shown_at, row) for shown_at, _, row in rows])

    def give(self) -> TransactionRow:
        """Remove and return the next row, and note its place."""
        row = Stream.give(self)
        self._given = (self._marks[row.id], row.id)
        return row

    @property
    def next_cut(self) -> TimePosition | None:
        """Return the place between what was given out and the rest."""
        if self.rows:
            row = self.rows[0][1]
            return (self._marks[row.id], row.id if self.backwards else row.id + 1)
        if self._given is not None:
            mark, identifier = self._given
            return (mark, identifier + 1 if self.backwards else identifier)
        if self.exhausted and not self.backwards:
            return (LONG_AGO, 0)
        return self.cut
