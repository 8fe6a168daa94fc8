"""How fast open transactions grow: kept by this process from one look at the page to the next."""

import threading
import time
from collections import deque
from collections.abc import Iterable

#: The rate is of the last so many seconds.
_WINDOW_SECONDS = 4.0
#: Two readings nearer than this tell no rate.
_LEAST_SECONDS = 0.7
#: A reading this old says nothing about now: nobody looked meanwhile.
_STALE_SECONDS = 15.0
#: A transaction nobody has looked at for so long is forgotten.
_FORGET_SECONDS = 60.0


class Rates:
    """Changes a second of each transaction; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def note(
        self, counts: Iterable[tuple[int, int]], now: float | None = None
    ) -> dict[int, float | None]:
        """Note how many changes each has by now; how many a second that makes, None: too early."""
        at = time.monotonic() if now is None else now
        rates: dict[int, float | None] = {}
        with self._lock:
            for identifier, changes in counts:
                readings = self._seen.setdefault(identifier, deque(maxlen=64))
                readings.append((at, changes))
                while len(readings) > 2 and at - readings[1][0] >= _WINDOW_SECONDS:
                    readings.popleft()
                if at - readings[0][0] > _STALE_SECONDS and len(readings) > 1:
                    readings.popleft()
                first_at, first = readings[0]
                elapsed = at - first_at
                told = elapsed >= _LEAST_SECONDS
                rates[identifier] = max(changes - first, 0) / elapsed if told else None
            for identifier in [
                i for i, readings in self._seen.items() if at - readings[-1][0] > _FORGET_SECONDS
            ]:
                del self._seen[identifier]
        return rates


#: Of this process.
rates = Rates()
