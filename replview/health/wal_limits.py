"""How much WAL a slot may retain, who says so, and what happens then. Pure; no queries."""

from dataclasses import dataclass
from datetime import datetime

from replview.health.states import Reading
from replview.store.models import Slot, Source
from replview.text.formats import bytes_words


@dataclass(frozen=True, slots=True, kw_only=True)
class WalLimit:
    """The limit that is reached first; ``size_bytes`` None: there is none, or it is unknown."""

    size_bytes: int | None = None
    #: ``server`` (max_slot_wal_keep_size), ``budget`` (replview then drops its own slot),
    #: ``record`` (a budget at which it only alerts), ``none``, ``unknown``.
    by: str = "unknown"

    @property
    def loses(self) -> bool:
        """Whether the slot is gone once it is reached."""
        return self.by in ("server", "budget")

    @property
    def words(self) -> str:
        """``limit 64 GB (max_slot_wal_keep_size)``."""
        if self.size_bytes is None:
            if self.by == "none":
                return "no limit: can fill the disk (max_slot_wal_keep_size)"
            return "limit unknown"
        size = bytes_words(self.size_bytes)
        if self.by == "server":
            return f"limit {size} (max_slot_wal_keep_size)"
        return f"budget {size} ({'protect the database' if self.loses else 'protect the record'})"

    @property
    def end_words(self) -> str:
        """What happens there: ``64 GB: wal_removed, the slot is lost``."""
        if self.size_bytes is None:
            return ""
        then = {
            "server": "wal_removed, the slot is lost",
            "budget": "replview drops the slot",
            "record": "alerts only, WAL goes on growing",
        }[self.by]
        return f"{bytes_words(self.size_bytes)}: {then}"


def limit_of(source: Source, slot: Slot | None = None, *, losing: bool = False) -> WalLimit:
    """Of the server's limit and our own slot's budget the smaller; ``losing`` leaves out a budget
    at which the slot is kept.
    """
    server, budget = source.max_slot_wal_keep_bytes, slot.wal_budget_bytes if slot else None
    found = []
    if server is not None and server >= 0:
        found.append(WalLimit(size_bytes=server, by="server"))
    if slot is not None and budget is not None:
        kept = slot.protect == Slot.Protect.RECORD
        if not (kept and losing):
            found.append(WalLimit(size_bytes=budget, by="record" if kept else "budget"))
    if not found:
        return WalLimit(by="unknown" if server is None else "none")
    return min(found, key=lambda limit: limit.size_bytes or 0)


def loss_seconds(
    source: Source, reading: Reading, now: datetime, slot: Slot | None = None
) -> float | None:
    """Until the slot is lost, at the pace of the last minutes; None: not foreseeable."""
    growth = reading.growth_bytes_per_second
    if not growth or growth <= 0 or reading.lost or not reading.fresh(now):
        return None
    left = _left_bytes(source, reading, slot)
    return None if left is None else max(left, 0) / growth


def _left_bytes(source: Source, reading: Reading, slot: Slot | None) -> int | None:
    """What may still be written: the server's own word (``safe_wal_size``) before our sum."""
    retained, limit = reading.retained_wal_bytes, limit_of(source, slot, losing=True)
    known = [] if reading.safe_wal_bytes is None else [reading.safe_wal_bytes]
    told_by_server = bool(known) and limit.by == "server"
    if limit.size_bytes is not None and retained is not None and not told_by_server:
        known.append(limit.size_bytes - retained)
    return min(known, default=None)
