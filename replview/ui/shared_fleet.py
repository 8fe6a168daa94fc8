"""The fleet for what every open page asks every few seconds: read once for all of them.

Most accounts see all sources, so that one answer is right for them all; whoever sees some of them
has a fleet of their own. A page itself is never made of it: what somebody just did must be there.
"""

import itertools
import threading
import time

from django.core.cache import cache

from replview.health.fleet import Fleet, read_fleet
from replview.store.models.seen import seen_sources

#: As old as a header may be: less than the pause between two of its questions. Of very many slots
#: it is kept longer: a process spends no more than one part in so many of its time on reading them.
_SECONDS, _MOST_SECONDS, _PART = 2, 10, 20
_KEY = "shared-fleet"

_lock = threading.Lock()
_numbers = itertools.count(1)
_held: tuple[int, Fleet] | None = None


def read_shared_fleet() -> Fleet:
    """The fleet, a few seconds old. One reads while the others wait for it."""
    global _held
    if seen_sources() is not None:
        return read_fleet()
    with _lock:
        # The cache says how long; the fleet itself is not packed into it and out again.
        if _held is not None and cache.get(_KEY) == _held[0]:
            return _held[1]
        began = time.thread_time()
        number, fleet = next(_numbers), read_fleet()
        _held = (number, fleet)
        seconds = int(_PART * (time.thread_time() - began))
        cache.set(_KEY, number, min(max(seconds, _SECONDS), _MOST_SECONDS))
        return fleet
