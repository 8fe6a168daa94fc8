"""Names random histories, chooses those to play, and makes a failing one smaller.

A seed decides what the histories of ten tables are, and what each of their transactions does by its
number alone. So a name says all of it: ``401`` is all that the seed makes, and ``401:2,5:0-63,70``
what happens to tables 2 and 5 in those of its transactions.

Playing and comparing takes some twenty seconds, where hypothesis counts on thousands of runs: of a
strategy of tables and transactions, thirty runs left 281 of 300 transactions. So a history that
fails is made smaller here: tables first, and then transactions are left out by halves, quarters, …
for as long as some answer is wrong, and no longer than five minutes. What remains is named with the
failure, and is played again by that name, without being made smaller.

``kept_histories.txt`` has the names of those that once failed; they are played in every run, first.
A name means the same only for as long as ``histories`` does: so what a history has shown gets a
small test of its own as well.
"""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

#: The numbers of histories of one seed, and of transactions that begin in them.
TABLES = 10
TRANSACTIONS = 300
KEPT = Path(__file__).with_name("kept_histories.txt")
_NAME = re.compile(r"(\d+)(?::([\d,-]*))?(?::([\d,-]*))?")


@dataclass(frozen=True)
class Named:
    """The seed, tables and transactions of the history that is played."""

    seed: int
    tables: frozenset[int] = frozenset(range(TABLES))
    transactions: frozenset[int] = frozenset(range(TRANSACTIONS))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name. Raises ``ValueError``."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise ValueError(f"{text} names no history: write 401, or 401:2,5:0-63,70")
        tables = _numbers(match[2] or f"0-{TABLES - 1}")
        return cls(int(match[1]), tables, _numbers(match[3] or f"0-{TRANSACTIONS - 1}"))

    def __str__(self) -> str:
        whole = Named(self.seed)
        tables = "" if self.tables == whole.tables else _spans(self.tables)
        transactions = "" if self.transactions == whole.transactions else _spans(self.transactions)
        return f"{self.seed}:{tables}:{transactions}".rstrip(":")

    @property
    def is_whole(self) -> bool:
        """Nothing of its seed is left out."""
        return self == Named(self.seed)

    def note(self, error: BaseException) -> None:
        """Have a failure say how to play these histories again."""
        error.add_note(f"these histories again: make histories SEEDS={self}")
        error.add_note(f"and in every run from now on: echo {self} >> {KEPT}")

    def smaller(self, fails: Callable[[Self], bool], seconds: float = 300.0) -> Self:
        """The least that was found within so many seconds of which some answer is wrong, too."""
        name, deadline = self, time.monotonic() + seconds
        for part in ("tables", "transactions"):
            pieces = 2
            while time.monotonic() < deadline:
                numbers = sorted(getattr(name, part))
                size = -(-len(numbers) // pieces)
                without = (
                    replace(name, **{part: frozenset(numbers[:n] + numbers[n + size :])})
                    for n in range(0, len(numbers), size)
                )
                tried = (each for each in without if getattr(each, part))
                found = next((e for e in tried if time.monotonic() < deadline and fails(e)), None)
                if found is not None:
                    name, pieces = found, max(pieces - 1, 2)
                elif size == 1:
                    break
                else:
                    pieces *= 2
        return name


def _numbers(text: str) -> frozenset[int]:
    spans = [each.split("-") for each in text.split(",")]
    return frozenset(n for each in spans for n in range(int(each[0]), int(each[-1]) + 1))


def _spans(numbers: frozenset[int]) -> str:
    first = [n for n in sorted(numbers) if n - 1 not in numbers]
    last = [n for n in sorted(numbers) if n + 1 not in numbers]
    pairs = zip(first, last, strict=True)
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in pairs)


def chosen() -> list[Named]:
    """``HISTORIES`` of them (60): those kept first, and then the seeds from 0 on; or those from
    ``SEED`` on, or the ones that ``SEEDS`` names, and no others.
    """
    if names := os.environ.get("SEEDS", "").split():
        return [Named.parse(name) for name in names]
    count = -(-int(os.environ.get("HISTORIES") or 60) // TABLES)
    if seed := os.environ.get("SEED"):
        return [Named(number) for number in range(int(seed), int(seed) + count)]
    lines = (line.partition("#")[0].strip() for line in KEPT.read_text().splitlines())
    found = [Named.parse(line) for line in lines if line]
    return list(dict.fromkeys([*found, *map(Named, range(count))]))[: max(count, len(found))]
