"""The five words of health, and what they are derived from (``health.findings``). No queries."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

#: Samples are taken every few seconds: an older one is the past, not the present.
STALE_AFTER = timedelta(seconds=30)


class Level(StrEnum):
    """Worst first; the values are the names in CSS."""

    NOW = "now"
    LOOK = "look"
    UNKNOWN = "unknown"
    OK = "ok"
    IDLE = "idle"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self]

    @property
    def word(self) -> str:
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
class Reading:
    """What the samples say of a slot; None is unknown."""

    sampled_at: datetime | None = None
    #: Of a lost slot None: it retains nothing, and is not caught up either.
    retained_wal_bytes: int | None = None
    unconfirmed_wal_bytes: int | None = None
    safe_wal_bytes: int | None = None
    wal_status: str | None = None
    #: ``invalidation_reason``, or what older servers say in its place; empty: it is not lost.
    invalidated: str = ""
    #: Since when nobody has read it, as the server counts for ``idle_replication_slot_timeout``;
    #: None: somebody reads it, the timeout does not hold for it, or this is unknown.
    idle_since: datetime | None = None
    #: In transactions: how old the oldest is of which the slot keeps rows from vacuum.
    xmin_age: int | None = None
    #: The first look that did not find it on its server.
    gone_at: datetime | None = None
    #: How fast retained WAL grows, and the slowest and fastest it may: ``conditions.growth_of``.
    growth_bytes_per_second: float | None = None
    growth_between: tuple[float, float] | None = None
    #: How fast what is unconfirmed has grown over the last minute; negative: it is read
    #: faster than it is written.
    behind_growth_bytes_per_second: float | None = None
    #: How fast the source has written WAL over the last minutes.
    wal_bytes_per_second: float | None = None
    transactions_per_second: float | None = None
    #: From the commit on the source to stored, over the last transactions.
    stored_after_p50_us: float | None = None
    stored_after_p99_us: float | None = None

    @property
    def lost(self) -> str:
        """Why it can never be read again; empty: it can, as far as is known."""
        return self.invalidated or ("lost" if self.wal_status == "lost" else "")

    def fresh(self, now: datetime) -> bool:
        return self.sampled_at is not None and now - self.sampled_at < STALE_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The oldest transaction that waits for COMMIT PREPARED or ROLLBACK PREPARED."""

    gid: str
    prepared_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A state, its cause and the next step, each a plain sentence."""

    level: Level
    title: str
    cause: str = ""
    next_step: str = ""
    #: Until the source removes WAL which the slot needs.
    loss_seconds: float | None = None
    #: ``25 min to 46 min``; empty where there is none to say.
    loss_span: str = ""
    #: The limit that is reached first: ``idle_replication_slot_timeout``; empty: none in sight.
    loss_by: str = ""


def worst(findings: Iterable[Health]) -> Health:
    """The first of the worst level, the one that is lost soonest before the others."""
    return min(findings, key=urgency)


def urgency(health: Health) -> tuple[int, float]:
    """Sorts the worst first."""
    loss = health.loss_seconds
    return health.level.rank, 1e18 if loss is None else loss
