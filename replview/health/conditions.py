"""This module computes the conditions of a slot: limits, losses, lag, disuse.

Each is computed only here, for health, alerts and trials of alert rules. The input is what the
server reported of the slot at one moment: now, or when a past sample was taken. None means unknown.
The functions run no queries.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from replview.health.states import SlotReading
from replview.store.models import Slot, Source, WatchedSlot
from replview.text.formats import age_words, bytes_words

#: Windows over which growth is measured. They differ because a checkpoint, which causes much WAL,
#: comes every five minutes by default.
GROWTH_WINDOWS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=10))
#: Samples that span less than this give no rate.
GROWTH_LEAST = timedelta(seconds=30)
#: Slower growth than this counts as none: an idle server writes about as much.
STEADY_BYTES_PER_SECOND = 1024
#: Share of the limit from which a loss is predicted: before that, any burst of writes would predict
#: one. A rate measured over minutes predicts at most a week.
_FORECAST_FROM, _FORECAST_SECONDS = 0.1, 7 * 86400
#: Share of the idle timeout from which a loss is predicted: a reader that reconnects, or polls,
#: leaves its slot idle for a while.
_IDLE_FORECAST_FROM = 0.5
#: A connected reader with less WAL than this to confirm has a lag of 0: a walsender that has
#: nothing to measure reports no lag.
_CAUGHT_UP_BYTES = 16 << 20

#: The limits that end a slot, as sentences and alerts name them.
BY_SERVER, BY_BUDGET = "max_slot_wal_keep_size", "its WAL budget"
BY_IDLE = "idle_replication_slot_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class WalLimit:
    """The limit on retained WAL that is reached first.

    ``size_bytes`` is None where there is no limit, or where it is unknown.
    """

    size_bytes: int | None = None
    #: ``server`` (max_slot_wal_keep_size), ``budget`` (replview then drops its own slot),
    #: ``record`` (a budget at which it only alerts), ``none``, ``unknown``.
    by: str = "unknown"

    @property
    def loses(self) -> bool:
        """Return whether the slot is lost at the limit."""
        return self.by in ("server", "budget")

    @property
    def words(self) -> str:
        """Return the limit in words: ``limit 64 GB (max_slot_wal_keep_size)``."""
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
        """Return what happens at the limit: ``64 GB: wal_removed, the slot is lost``."""
        if self.size_bytes is None:
            return ""
        outcome = {
            "server": "wal_removed, the slot is lost",
            "budget": "replview drops the slot",
            "record": "alerts only, WAL keeps growing",
        }[self.by]
        return f"{bytes_words(self.size_bytes)}: {outcome}"


def limit_of(
    source: Source,
    slot: Slot | None = None,
    reading: SlotReading | None = None,
    *,
    losing: bool = False,
) -> WalLimit:
    """Return the limit that is reached first: the server's setting, or our own slot's budget.

    ``losing`` ignores a budget at which replview keeps the slot. The ``wal_status`` of ``reading``
    overrides the server's setting, which is read less often.
    """
    server, budget = source.max_slot_wal_keep_bytes, slot.wal_budget_bytes if slot else None
    if reading is not None and reading.wal_status == "unreserved":
        # The slot has passed the server's limit, whatever the setting was when last read.
        retained = reading.retained_wal_bytes
        is_known = server is not None and 0 <= server <= (retained or 0)
        return WalLimit(size_bytes=server if is_known else retained, by="server")
    limits = []
    if server is not None and server >= 0:
        limits.append(WalLimit(size_bytes=server, by="server"))
    if slot is not None and budget is not None:
        keeps_slot = slot.protect == Slot.Protect.RECORD
        if not (keeps_slot and losing):
            limits.append(WalLimit(size_bytes=budget, by="record" if keeps_slot else "budget"))
    if not limits:
        return WalLimit(by="unknown" if server is None else "none")
    return min(limits, key=lambda limit: limit.size_bytes or 0)


def left_bytes(retained: float | None, safe: float | None, limit: WalLimit) -> float | None:
    """Return how many bytes of WAL may still be written before the limit; None: unknown.

    The server's own ``safe_wal_size`` takes precedence over the difference computed here.
    """
    candidates = [] if safe is None else [safe]
    from_server = bool(candidates) and limit.by == "server"
    if limit.size_bytes is not None and retained is not None and not from_server:
        candidates.append(limit.size_bytes - retained)
    return min(candidates, default=None)


def growth_of(rates: Sequence[float | None]) -> tuple[float, float, float] | None:
    """Return the bytes a second by which retained WAL grows: median, slowest and fastest window.

    ``rates`` has one rate for each of ``GROWTH_WINDOWS``. The result is None where the samples are
    too few. The median keeps bursts and pauses from deciding; but if WAL stopped growing within the
    last minute, the first value is that of the last minute.
    """
    known_rates = [rate for rate in rates if rate is not None]
    if not known_rates:
        return None
    stopped_growing = rates[0] is not None and rates[0] < STEADY_BYTES_PER_SECOND
    return (
        known_rates[0] if stopped_growing else median(known_rates),
        min(known_rates),
        max(known_rates),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LossEstimate:
    """The seconds until a slot is lost: estimated, at the earliest and at the latest.

    All three are infinite where no loss is in sight.
    """

    seconds: float
    soonest: float
    latest: float
    #: The limit that ends the slot: ``BY_SERVER``, ``BY_BUDGET`` or ``BY_IDLE``; empty: none.
    by: str = ""

    @property
    def in_sight(self) -> bool:
        """Return whether a loss is expected at all."""
        return self.seconds < math.inf

    @property
    def at_checkpoint(self) -> bool:
        """Return whether a server limit is passed, so that the next checkpoint ends the slot."""
        return self.seconds <= 0 and self.by != BY_BUDGET

    def as_json(self) -> dict[str, object]:
        """Return the estimate in seconds; ``latest`` is null where it may never be lost."""
        latest = None if self.latest == math.inf else round(self.latest)
        return {"seconds": round(self.seconds), "soonest": round(self.soonest), "latest": latest,
                "by": self.by}  # fmt: skip

    @property
    def span(self) -> str:
        """Return ``25 min to 46 min``; empty where the estimate is nearly exact."""
        if self.latest - self.soonest < 0.1 * self.seconds or self.seconds == math.inf:
            return ""
        if self.latest > _FORECAST_SECONDS:
            return f"{age_words(self.soonest)} at the earliest"
        return f"{age_words(self.soonest)} to {age_words(self.latest)}"


_NO_LOSS = LossEstimate(seconds=math.inf, soonest=math.inf, latest=math.inf)


def time_to_loss(
    source: Source, reading: SlotReading, slot: Slot | None = None
) -> LossEstimate | None:
    """Return when the slot is lost, by the limit that is reached first.

    Pages, charts, alerts and the API all use this estimate. None means that it is unknown, or that
    nothing limits the slot.

    An idle timeout is reported only once the share ``_IDLE_FORECAST_FROM`` of it has passed,
    because readers come back. It is reported earlier where the WAL limit is in sight but would be
    reached later.
    """
    wal, idle = loss_by_wal(source, reading, slot), loss_by_idle(source, reading)
    if wal is None and idle_timeout(source) and reading.retained_wal_bytes is not None:
        wal = _NO_LOSS if limit_of(source, slot, losing=True).by == "none" else None
    if idle is None or reading.lost:
        return wal
    in_sight = wal is not None and wal.in_sight
    if not in_sight and idle.seconds > (1 - _IDLE_FORECAST_FROM) * (idle_timeout(source) or 0):
        return wal
    return idle if wal is None or idle.seconds < wal.seconds else wal


def idle_timeout(source: Source) -> int | None:
    """Return ``idle_replication_slot_timeout`` in seconds; None: there is none, or unknown."""
    return source.idle_slot_timeout_seconds or None


def loss_by_idle(source: Source, reading: SlotReading) -> LossEstimate | None:
    """Return when the slot may be lost because nobody reads it; None: the timeout does not run.

    The first checkpoint after the timeout ends the slot. Source: PostgreSQL 18, slot.c,
    ``DetermineSlotInvalidationCause()``.
    """
    timeout = idle_timeout(source)
    if timeout is None or reading.idle_since is None or reading.sampled_at is None:
        return None
    seconds = max(timeout - (reading.sampled_at - reading.idle_since).total_seconds(), 0.0)
    return LossEstimate(seconds=seconds, soonest=seconds, latest=seconds, by=BY_IDLE)


def loss_by_wal(
    source: Source, reading: SlotReading, slot: Slot | None = None
) -> LossEstimate | None:
    """Return when the slot is lost for the WAL that it retains; None: unknown, or no limit."""
    retained, limit = reading.retained_wal_bytes, limit_of(source, slot, reading, losing=True)
    remaining = left_bytes(retained, reading.safe_wal_bytes, limit)
    if remaining is None or retained is None or reading.lost:
        return None
    by = BY_BUDGET if limit.by == "budget" else BY_SERVER
    if remaining <= 0:
        return LossEstimate(seconds=0.0, soonest=0.0, latest=0.0, by=by)
    pace = reading.growth_bytes_per_second
    if retained < _FORECAST_FROM * (limit.size_bytes or 1):
        return _NO_LOSS
    if pace is None:
        return None
    if pace < STEADY_BYTES_PER_SECOND or remaining > pace * _FORECAST_SECONDS:
        return _NO_LOSS
    slowest, fastest = reading.growth_between or (pace, pace)
    latest = remaining / slowest if slowest > 0 else math.inf
    return LossEstimate(seconds=remaining / pace, soonest=remaining / fastest, latest=latest, by=by)


def foreseen_loss(
    source: Source, reading: SlotReading, now: datetime, slot: Slot | None = None
) -> LossEstimate | None:
    """Return ``time_to_loss`` if the reading is fresh and a loss is in sight, else None."""
    loss = time_to_loss(source, reading, slot) if reading.fresh(now) else None
    return loss if loss is not None and loss.in_sight else None


def later_loss(
    source: Source, reading: SlotReading, first: LossEstimate, slot: Slot | None = None
) -> LossEstimate | None:
    """Return the loss by the limit that comes after ``first``; None: none is in sight."""
    loss = loss_by_wal(source, reading, slot) if first.by == BY_IDLE else None
    if first.by != BY_IDLE:
        loss = loss_by_idle(source, reading)
    return loss if loss is not None and loss.in_sight else None


def idle_since(facts: Mapping[str, Any], *, on_standby: bool) -> datetime | None:
    """Return since when the server counts a slot as idle for its timeout; None: it does not.

    A slot that reserves no WAL is exempt, and so is a slot that a standby synchronizes from its
    primary. Source: PostgreSQL 18, slot.c, ``CanInvalidateIdleSlot()``.
    """
    since = facts.get("inactive_since")
    is_exempt = facts.get("synced") is True and on_standby
    reserves_none = "restart_lsn" in facts and facts["restart_lsn"] is None
    if facts.get("active") is not False or since is None or is_exempt or reserves_none:
        return None
    return since if isinstance(since, datetime) else datetime.fromisoformat(str(since))


def xmin_age(facts: Mapping[str, Any]) -> int | None:
    """Return the age in transactions of the slot's ``xmin`` or ``catalog_xmin``, the older one.

    Vacuum keeps rows that were deleted since then. None: the slot has neither, or it is unknown.
    """
    ages = [facts.get(name) for name in ("catalog_xmin_age", "xmin_age")]
    return max((int(age) for age in ages if age is not None), default=None)


def lost_reason(facts: Mapping[str, object], server_version: int | None = None) -> str:
    """Return ``invalidation_reason``, or its equivalent on an older server; empty: not lost.

    The column exists since 17. 16 reports only whether the reason was a conflict with recovery
    (``conflicting``). Before 16, removed WAL was the only reason. Source: PostgreSQL, slotfuncs.c,
    ``pg_get_replication_slots()``.
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
    """An observation is what was known of a slot at one moment."""

    at: datetime
    #: Columns of the server's views under their own names.
    facts: Mapping[str, Any]
    #: Since when nobody reads the slot.
    inactive_since: datetime | None = None
    #: The result of ``growth_of``.
    growth: tuple[float, float, float] | None = None

    def number(self, name: str) -> float | None:
        """Return a column of the server's views as a number; None: unknown."""
        value = self.facts.get(name)
        return None if value is None else float(value)

    def reading(self, slot: WatchedSlot) -> SlotReading:
        """Return the reading of the slot that pages show."""
        # A past sample does not record whether a standby synchronizes the slot.
        facts = {"synced": slot.facts.get("synced"), **self.facts}
        retained, safe = self.number("retained_wal_bytes"), self.number("safe_wal_size")
        pace, *extremes = self.growth or (None,)
        return SlotReading(
            sampled_at=self.at,
            retained_wal_bytes=None if retained is None else int(retained),
            safe_wal_bytes=None if safe is None else int(safe),
            wal_status=self.facts.get("wal_status"),
            growth_bytes_per_second=pace,
            growth_between=(extremes[0], extremes[1]) if extremes else None,
            idle_since=idle_since(facts, on_standby=slot.source.in_recovery is True),
            xmin_age=xmin_age(facts),
        )


def retained_bytes(slot: WatchedSlot, observation: Observation) -> float | None:
    """Return the WAL that the slot retains; None: unknown."""
    return observation.number("retained_wal_bytes")


def share_limit_bytes(slot: WatchedSlot) -> int | None:
    """Return the smaller of the source's limit and the slot's budget.

    The result is None where there is no limit, where it is unknown, or where it is 0, so that no
    share can be computed.
    """
    budget = slot.slot.wal_budget_bytes if slot.slot is not None else None
    return min((size for size in (limit_of(slot.source).size_bytes, budget) if size), default=None)


def retained_share(slot: WatchedSlot, observation: Observation) -> float | None:
    """Return retained WAL as a share of ``share_limit_bytes``; None where it is unknown."""
    limit, retained = share_limit_bytes(slot), retained_bytes(slot, observation)
    return None if limit is None or retained is None else retained / limit


def seconds_to_loss(slot: WatchedSlot, observation: Observation) -> float | None:
    """Return the seconds until the slot is lost; infinite: no loss is in sight; None: unknown."""
    loss = time_to_loss(slot.source, observation.reading(slot), slot.slot)
    return None if loss is None else loss.seconds


def lag_seconds(slot: WatchedSlot, observation: Observation) -> float | None:
    """Return the walsender's replay lag; 0 for a connected reader that has caught up."""
    reported, unconfirmed = (
        observation.number("replay_lag_seconds"),
        observation.number("unconfirmed_wal_bytes"),
    )
    if reported is not None:
        return reported
    caught_up = (
        observation.facts.get("active")
        and unconfirmed is not None
        and unconfirmed < _CAUGHT_UP_BYTES
    )
    return 0.0 if caught_up else None


def lost(slot: WatchedSlot, observation: Observation) -> float:
    """Return 1 for a slot that can never be read again, else 0."""
    return float(lost_reason(observation.facts, slot.source.server_version) != "")


def unread_seconds(slot: WatchedSlot, observation: Observation) -> float | None:
    """Return the seconds since the slot was last read; 0 while it is read; None: unknown."""
    active = observation.facts.get("active")
    if active is False and observation.inactive_since is not None:
        return max((observation.at - observation.inactive_since).total_seconds(), 0.0)
    return 0.0 if active is True else None
