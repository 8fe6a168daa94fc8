"""Computes the generated record: the size, time and position of every transaction.

All is computed from a seed, so that every process of the generator gets the same record.
"""

import datetime as dt
import random
from array import array
from dataclasses import dataclass

from decoder.scalars import us_from_datetime

#: A row's message in the WAL, about; a commit's record and what stands around it.
CHANGE_WAL_BYTES, COMMIT_WAL_BYTES = 160, 128
FIRST_LSN = 0x10_0000_0000
_DAY_US = 24 * 3600 * 1_000_000
#: The share of all transactions that fell on the last day, about twice an average one.
_LAST_DAY_SHARE = 0.0222
_LARGEST_USUAL = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The numbers of changes, transactions, tables and days in the generated record."""

    changes: int = 10_000_000
    transactions: int = 1_000_000
    tables: int = 50
    days: int = 90

    @classmethod
    def of(cls, changes: int) -> "Scale":
        """The official proportions with so many changes."""
        return cls(changes=changes, transactions=changes // 10)

    @property
    def largest(self) -> int:
        """Changes of the one large transaction."""
        return self.changes // 10

    @property
    def snapshot(self) -> int:
        """Rows of the baseline."""
        return self.changes // 500


class Plan:
    """The transactions of a slot, ``0`` to ``transactions - 1`` in the order of their commits."""

    def __init__(self, scale: Scale, end: dt.datetime, seed: int = 18) -> None:
        self.scale = scale
        self.end = end
        self.end_us = us_from_datetime(end)
        self.start_us = self.end_us - scale.days * _DAY_US
        number = scale.transactions
        #: A table's rows read as a baseline, the large one, the first of the second incarnation.
        self.snapshot = min(100, number // 4)
        self.large = int(number * 0.65)
        self.second_incarnation = number // 20
        self.last_day = number - int(number * _LAST_DAY_SHARE)
        self.sizes = self._sizes(random.Random(seed))
        self._before = array("Q", [0])
        total = 0
        for size in self.sizes:
            total += size
            self._before.append(total)

    def _sizes(self, draw: random.Random) -> "array[int]":
        """Most have a handful of changes, few have thousands; the sum is exact."""
        number = self.scale.transactions
        apart = {self.snapshot: self.scale.snapshot, self.large: self.scale.largest}
        wanted = self.scale.changes - sum(apart.values()) - (number - len(apart))
        raw = [min(draw.paretovariate(1.2), _LARGEST_USUAL) - 0.9 for _ in range(number)]
        share = wanted / sum(raw)
        sizes = array("I", (1 + int(value * share) for value in raw))
        for n, size in apart.items():
            sizes[n] = size
        missing = self.scale.changes - sum(sizes)
        step = 1 if missing > 0 else -1
        n = 0
        while missing:
            if n not in apart and sizes[n] + step >= 1:
                sizes[n] += step
                missing -= step
            n = (n + 1) % number
        return sizes

    def time_us(self, n: int) -> int:
        """Return the commit time of transaction ``n``, in microseconds since 2000-01-01."""
        last = self.end_us - _DAY_US
        if n < self.last_day:
            return self.start_us + (last - self.start_us) * n // self.last_day
        return last + _DAY_US * (n - self.last_day) // (self.scale.transactions - self.last_day)

    def lsn(self, n: int) -> int:
        """The position of its first change less one change's bytes."""
        return FIRST_LSN + self._before[n] * CHANGE_WAL_BYTES + n * COMMIT_WAL_BYTES

    def commit_lsn(self, n: int) -> int:
        """The position of its commit; it ends 48 bytes later."""
        return self.lsn(n) + (self.sizes[n] + 1) * CHANGE_WAL_BYTES

    def state(self, n: int) -> str:
        """Return the final state of transaction ``n``."""
        if n == self.snapshot:
            return "snapshot"
        if n == self.large:
            return "committed"
        if n % 997 == 5:
            return "aborted" if n % 2 else "rolled back"
        if n % 1009 == 7:
            return "skipped"
        return "message" if n % 503 == 11 and self.sizes[n] == 1 else "committed"

    def _commits_before(self, n: int) -> int:
        return n - (n + 991) // 997

    def commit_seq(self, n: int) -> int | None:
        """Return the place of transaction ``n`` in its incarnation; None if it did not commit."""
        if self.state(n) in ("aborted", "rolled back"):
            return None
        first = self.second_incarnation if n >= self.second_incarnation else 0
        return self._commits_before(n) - self._commits_before(first) + 1

    def commits(self, incarnation: int) -> int:
        """Return the number of commits in the first (0) or second (1) incarnation."""
        middle = self._commits_before(self.second_incarnation)
        return (
            middle if incarnation == 0 else self._commits_before(self.scale.transactions) - middle
        )
