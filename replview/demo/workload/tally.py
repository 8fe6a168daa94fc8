"""What the shop has done, counted by all sessions and said once a minute."""

from __future__ import annotations

import threading
from collections import Counter

#: Said first, in this order; everything else follows by name when it happened.
FIRST = ("committed", "rolled back")


class Tally:
    """Counters shared by the sessions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        with self._lock:
            self._counts[what] += count

    def counts(self) -> Counter[str]:
        """A copy of everything counted so far."""
        with self._lock:
            return self._counts.copy()


def minute_line(counts: Counter[str], seconds: float) -> str:
    """One line in plain words for what happened in the last ``seconds``."""
    done = counts["committed"] + counts["rolled back"]
    parts = [f"{name} {counts[name]}" for name in FIRST]
    parts += [f"{name} {count}" for name, count in sorted(counts.items()) if name not in FIRST]
    return f"{done / seconds:.1f} transactions a second: {', '.join(parts)}"
