"""What a receiver tells of itself with its signs of life: its last batch, and its memory."""

import os
import time
from pathlib import Path

import orjson

from replview.receiver.storing.portions import Portion

#: It is told so often, however many batches there are.
_TELL_SECONDS = 1.0
_STATM = Path("/proc/self/statm")


class ReceiverFacts:
    """Of one receiver, as ``slot.receiver_facts`` holds them."""

    def __init__(self) -> None:
        self._batch: dict[str, float] = {}
        self._told_at = 0.0

    def stored(self, portion: Portion, seconds: float) -> None:
        """A store transaction took so long; one without a change is no batch."""
        if portion.changes:
            self._batch = {
                "batch_changes": portion.changes,
                "batch_bytes": portion.size_bytes,
                "batch_seconds": round(seconds, 6),
            }

    def to_tell(self) -> str | None:
        """JSON for the slot's row; None while what was told last is young."""
        now = time.monotonic()
        if now - self._told_at < _TELL_SECONDS * 0.9:
            return None
        self._told_at = now
        return orjson.dumps({**self._batch, "memory_bytes": _memory_bytes()}).decode()


def _memory_bytes() -> int | None:
    """What the process holds in memory; it may receive other slots too. None where unknown."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
