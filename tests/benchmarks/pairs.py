"""Two things measured in turn, A B B A A B: what drifts on the machine meets both alike."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pairs:
    """The measurements of each pair, in the same unit."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        """The median of the pairs' own ratios."""
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def our_median(self) -> float:
        """The middle of our measurements."""
        return statistics.median(self.ours)

    @property
    def their_median(self) -> float:
        """The middle of theirs."""
        return statistics.median(self.theirs)

    @property
    def each(self) -> str:
        """Every pair's ratio."""
        return " ".join(f"{a / b:.2f}" for a, b in zip(self.ours, self.theirs, strict=True))


def in_turn(number: int, ours: Callable[[], float], theirs: Callable[[], float]) -> list[float]:
    """One pair, ``[ours, theirs]``; every other pair begins with ours."""
    if number % 2:
        first = ours()
        return [first, theirs()]
    first = theirs()
    return [ours(), first]
