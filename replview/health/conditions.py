"""The conditions of a slot, each computed here and nowhere else: limits, losses, lag, disuse.

Health, alerts and their trials ask with what a server reported of the slot at one moment: now, or
when a past sample was taken. None is unknown. No queries.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from replview.health.states import Reading
from replview.store.models import AlertRule, Slot, Source, WatchedSlot
from replview.text.formats import bytes_words

#: The pace at which WAL grows towards a loss is that of the last minutes.
GROWTH_WINDOW = timedelta(minutes=5)
GROWTH_LEAST = timedelta(seconds=20)
#: Loss is foretold once this share of the limit is used: before that, any burst of writing would
#: look like one.
_FORETOLD_FROM = 0.1
#: With less than this left to confirm, a reader that is connected has no lag worth a name: a
#: walsender that has nothing to measure reports none.
_CAUGHT_UP_BYTES = 16 << 20


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


def limit_of(
    source: Source,
    slot: Slot | None = None,
    reading: Reading | None = None,
    *,
    losing: bool = False,
) -> WalLimit:
    """Of the server's limit and our own slot's budget the one that is reached first; ``losing``
    leaves out a budget at which the slot is kept. What the server said with the ``reading`` goes
    before its setting, which is read less often.
    """
    server, budget = source.max_slot_wal_keep_bytes, slot.wal_budget_bytes if slot else None
    if reading is not None and reading.wal_status == "unreserved":
        # It has passed the server's limit, whatever the setting was when it was last read.
        retained = reading.retained_wal_bytes
        known = server is not None and 0 <= server <= (retained or 0)
        return WalLimit(size_bytes=server if known else retained, by="server")
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


def left_bytes(retained: float | None, safe: float | None, limit: WalLimit) -> float | None:
    """What may still be written before the limit: the server's own ``safe_wal_size`` before our
    difference; None: unknown.
    """
    known = [] if safe is None else [safe]
    server_knows = bool(known) and limit.by == "server"
    if limit.size_bytes is not None and retained is not None and not server_knows:
        known.append(limit.size_bytes - retained)
    return min(known, default=None)


def loss_seconds(
    source: Source, reading: Reading, now: datetime, slot: Slot | None = None
) -> float | None:
    """Until the slot is lost, at the pace of the last minutes; None: not foreseeable."""
    growth = reading.growth_bytes_per_second
    if not growth or growth <= 0 or reading.lost or not reading.fresh(now):
        return None
    limit = limit_of(source, slot, reading, losing=True)
    left = left_bytes(reading.retained_wal_bytes, reading.safe_wal_bytes, limit)
    return None if left is None else max(left, 0) / growth


def lost_reason(facts: Mapping[str, object], server_version: int | None = None) -> str:
    """``invalidation_reason``, or what an older server says in its place; empty: not lost.

    17 names the reason. 16 tells only whether a recovery conflict was it (``conflicting``), and
    before there was no other reason than removed WAL.
    Source: PostgreSQL, slotfuncs.c, ``pg_get_replication_slots()``.
    """
    if reason := facts.get("invalidation_reason"):
        return str(reason)
    if facts.get("conflicting") is True:
        return "conflicting"
    if facts.get("wal_status") == "lost":
        return "wal_removed" if server_version and server_version < 170000 else "lost"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was known of a slot at one moment."""

    at: datetime
    #: Columns of the server's views under their own names.
    facts: Mapping[str, Any]
    #: Since when nobody reads it.
    inactive_since: datetime | None = None
    #: How fast retained WAL has grown over ``GROWTH_WINDOW``.
    growth_bytes_per_second: float | None = None

    def number(self, name: str) -> float | None:
        """A fact that counts something."""
        value = self.facts.get(name)
        return None if value is None else float(value)


def retained_bytes(slot: WatchedSlot, seen: Observation) -> float | None:
    """WAL that the source keeps for the slot."""
    return seen.number("retained_wal_bytes")


def share_limit_bytes(slot: WatchedSlot) -> int | None:
    """The smaller of the source's limit and the slot's budget; nothing is a share of a limit of 0.
    None: there is none, or it is unknown.
    """
    budget = slot.slot.wal_budget_bytes if slot.slot is not None else None
    return min((size for size in (limit_of(slot.source).size_bytes, budget) if size), default=None)


def retained_share(slot: WatchedSlot, seen: Observation) -> float | None:
    """Retained WAL, of ``share_limit_bytes``."""
    limit, retained = share_limit_bytes(slot), retained_bytes(slot, seen)
    return None if limit is None or retained is None else retained / limit


def seconds_to_loss(slot: WatchedSlot, seen: Observation) -> float | None:
    """Until the source removes WAL that the slot needs; infinite: no loss is in sight."""
    limit, retained = limit_of(slot.source), retained_bytes(slot, seen)
    left = left_bytes(retained, seen.number("safe_wal_size"), limit)
    if left is None or retained is None:
        return None
    if retained < _FORETOLD_FROM * (limit.size_bytes or 1):
        return math.inf
    growth = seen.growth_bytes_per_second
    if growth is None:
        return None
    return max(left, 0.0) / growth if growth > 0 else math.inf


def lag_seconds(slot: WatchedSlot, seen: Observation) -> float | None:
    """As the walsender reports it; a reader that is connected and caught up has none."""
    reported, left = seen.number("replay_lag_seconds"), seen.number("unconfirmed_wal_bytes")
    if reported is not None:
        return reported
    caught_up = seen.facts.get("active") and left is not None and left < _CAUGHT_UP_BYTES
    return 0.0 if caught_up else None


def lost(slot: WatchedSlot, seen: Observation) -> float:
    """1 of a slot that can never be read again."""
    return float(lost_reason(seen.facts, slot.source.server_version) != "")


def unread_seconds(slot: WatchedSlot, seen: Observation) -> float | None:
    """Since somebody last read it; 0: somebody does."""
    active = seen.facts.get("active")
    if active is False and seen.inactive_since is not None:
        return max((seen.at - seen.inactive_since).total_seconds(), 0.0)
    return 0.0 if active is True else None


_K = AlertRule.Kind
#: What each kind of rule measures of a slot, in the kind's unit.
MEASURES: dict[str, Callable[[WatchedSlot, Observation], float | None]] = {
    _K.RETAINED_WAL: retained_bytes,
    _K.RETAINED_SHARE: retained_share,
    _K.TIME_TO_LOSS: seconds_to_loss,
    _K.LAG: lag_seconds,
    _K.SLOT_LOST: lost,
    _K.SLOT_INACTIVE: unread_seconds,
}


def concerns(kind: str, slot: WatchedSlot, *, own_rule: bool) -> bool:
    """Whether a kind of rule is about this slot; ``own_rule``: the rule is this slot's alone."""
    if kind == _K.RECEIVER_DOWN:
        return slot.slot is not None
    if kind in (_K.RETAINED_WAL, _K.RETAINED_SHARE):
        limited = share_limit_bytes(slot) is not None
        return limited if kind == _K.RETAINED_SHARE else own_rule or not limited
    if kind == _K.TIME_TO_LOSS:
        return limit_of(slot.source).size_bytes is not None
    # A slot that is synchronised from the primary is never read on a standby.
    return kind != _K.SLOT_INACTIVE or not (slot.facts.get("synced") is True or slot.temporary)
