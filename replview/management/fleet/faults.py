"""What is wrong in a fleet file: where, what, and what to write instead."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replview.management.fleet.positions import Places


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    line: int
    #: ``source.shop.slot.replview.wal_budget``; empty: the file as a whole.
    key: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.key}: {self.text}" if self.key else self.text


class FleetFaults(Exception):
    """The file cannot be used; nothing was done. All its faults at once."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


class Faults:
    """Collects them while a file is read."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.found: list[Fault] = []

    def line_of(self, path: Sequence[str | int]) -> int:
        """Where it stands."""
        return self._places.line_of(path)

    def add(self, path: Sequence[str | int], text: str) -> None:
        """Something at this path is wrong."""
        self.found.append(Fault(self.line_of(path), _dotted(path), text))

    def unknown(self, path: Sequence[str | int], known: Iterable[str]) -> None:
        """A key that there is not, with the nearest there is."""
        names = sorted(known)
        near = difflib.get_close_matches(str(path[-1]), names, n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
        self.add(path, f"there is no such key; {meant}")

    def check(self) -> None:
        """Raise ``FleetFaults`` if there are any."""
        if self.found:
            raise FleetFaults(sorted(self.found, key=lambda fault: fault.line))


def _dotted(path: Sequence[str | int]) -> str:
    """``source[2].slot[1].name``: counted as people count."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text
