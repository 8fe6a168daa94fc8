"""This module defines the five levels of health and the data that they are derived from.

``findings_received`` and ``findings_watched`` derive them. The functions run no queries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from replview.store.read.coverage import STALE_AFTER


class Level(StrEnum):
    """A level of health, worst first; the values are names of CSS classes."""

    NOW = "now"
    LOOK = "look"
    UNKNOWN = "unknown"
    OK = "ok"
    IDLE = "idle"

    @property
    def rank(self) -> int:
        """Return the order of the level, 0 for the worst."""
        return _RANKS[self]

    @property
    def word(self) -> str:
        """Return the level in words."""
        return WORDS[self]


_RANKS = {level: rank for rank, level in enumerate(Level)}

WORDS = {
    Level.NOW: "needs you now",
    Level.LOOK: "needs a look",
    Level.UNKNOWN: "unknown",
    Level.OK: "caught up",
    Level.IDLE: "idle",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReading:
    """A reading is what the samples say of a slot; None is unknown."""

    sampled_at: datetime | None = None
    #: None for a lost slot too: it retains nothing, and is not caught up either.
    retained_wal_bytes: int | None = None
    unconfirmed_wal_bytes: int | None = None
    safe_wal_bytes: int | None = None
    wal_status: str | None = None
    #: ``invalidation_reason``, or what older servers say in its place; empty: it is not lost.
    invalidated: str = ""
    #: Since when nobody has read it, as the server counts for ``idle_replication_slot_timeout``;
    #: None: somebody reads it, the timeout does not hold for it, or this is unknown.
    idle_since: datetime | None = None
    #: Age in transactions of the oldest deleted rows that the slot keeps from vacuum.
    xmin_age: int | None = None
    #: The time of the first sample that did not find the slot on its server.
    gone_at: datetime | None = None
    #: Growth of retained WAL, and the slowest and fastest estimate (``conditions.growth_of``).
    growth_bytes_per_second: float | None = None
    growth_between: tuple[float, float] | None = None
    #: Growth of unconfirmed WAL over the last minute; negative: WAL is read faster than it is
    #: written.
    behind_growth_bytes_per_second: float | None = None
    #: Rate at which the source has written WAL over the last minutes.
    wal_bytes_per_second: float | None = None
    transactions_per_second: float | None = None
    #: Time from the commit on the source until stored, over the last transactions.
    stored_after_p50_us: float | None = None
    stored_after_p99_us: float | None = None
    #: How old a sample may be and still describe the present.
    stale_after: timedelta = STALE_AFTER

    @property
    def lost(self) -> str:
        """Return why the slot can never be read again; empty: it can, as far as is known."""
        return self.invalidated or ("lost" if self.wal_status == "lost" else "")

    def fresh(self, now: datetime) -> bool:
        """Return whether the last sample is recent."""
        return self.sampled_at is not None and now - self.sampled_at < self.stale_after


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestPrepared:
    """The oldest transaction that waits for COMMIT PREPARED or ROLLBACK PREPARED."""

    gid: str
    prepared_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A finding: a level, its cause and the next step, each a plain sentence."""

    level: Level
    title: str
    cause: str = ""
    next_step: str = ""
    #: Estimated seconds until the slot is lost; None: unknown, or no loss is in sight.
    loss_seconds: float | None = None
    #: ``25 min to 46 min``; empty where the estimate has no span.
    loss_span: str = ""
    #: The limit that is reached first, such as ``idle_replication_slot_timeout``; empty: none.
    loss_by: str = ""


def worst(findings: Iterable[Health]) -> Health:
    """Return the first finding of the worst level; within a level, the one that is lost soonest."""
    return min(findings, key=urgency)


def urgency(health: Health) -> tuple[int, float]:
    """Return a sort key that puts the worst first."""
    loss = health.loss_seconds
    return health.level.rank, 1e18 if loss is None else loss
