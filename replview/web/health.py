"""The five words of health, and what they are derived from (``web.findings``). No queries."""

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
        return list(Level).index(self)

    @property
    def word(self) -> str:
        """As pages say it."""
        return WORDS[self]


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
    retained_wal_bytes: int | None = None
    safe_wal_bytes: int | None = None
    wal_status: str | None = None
    #: How fast retained WAL has grown over the last minutes.
    growth_bytes_per_second: float | None = None
    transactions_per_second: float | None = None
    #: From the commit on the source to stored, over the last transactions.
    stored_after_p50_us: float | None = None
    stored_after_p99_us: float | None = None

    def fresh(self, now: datetime) -> bool:
        """Whether it tells of the present."""
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


def worst(findings: Iterable[Health]) -> Health:
    """The first of the worst level."""
    return min(findings, key=lambda health: (health.level.rank, health.loss_seconds or 1e18))
