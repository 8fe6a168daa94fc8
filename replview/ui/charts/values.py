"""What charts are made of: a slot's values over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotValues:
    """One slot's points, oldest first; a point of which all is None is a gap."""

    name: str
    #: Milliseconds since 1970.
    times: Sequence[float]
    values: Mapping[str, Sequence[Any]]

    def of(self, field: str) -> Sequence[Any]:
        """A field's values; all unknown where it was not read."""
        return self.values.get(field) or [None] * len(self.times)

    def knows(self, field: str) -> bool:
        """Whether any point tells it."""
        return any(value is not None for value in self.of(field))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A piece of time in which something is not known, and why: hatched."""

    since: float
    until: float
    why: str
    #: It lasts to the newest point.
    open: bool = False


def stretches(slot: SlotValues, reasons: Sequence[str | None]) -> list[Stretch]:
    """Neighbouring points with the same reason as one stretch; a lone point is none."""
    found: list[Stretch] = []
    start: int | None = None
    for number in range(len(reasons) + 1):
        reason = reasons[number] if number < len(reasons) else None
        if start is not None and reason != reasons[start]:
            if number - start > 1:
                found.append(
                    Stretch(
                        since=slot.times[start],
                        until=slot.times[min(number, len(reasons) - 1)],
                        why=str(reasons[start]),
                        open=number >= len(reasons),
                    )
                )
            start = None
        if start is None and reason is not None:
            start = number
    return found
