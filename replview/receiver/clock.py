"""Our clock, counted as PostgreSQL counts."""

import time

#: Seconds from 1970 to 2000.
_POSTGRES_EPOCH_SECONDS = 946_684_800


def now_us() -> int:
    """The time in microseconds since 2000-01-01 UTC."""
    return int((time.time() - _POSTGRES_EPOCH_SECONDS) * 1_000_000)
