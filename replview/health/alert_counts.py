"""How many alerts fire: for the navigation and the overview (``health.open_counts`` reads it)."""

import datetime as dt
from dataclasses import dataclass

from replview.health.states import Level


@dataclass(frozen=True, slots=True)
class AlertCounts:
    """Of the alerts that fire."""

    firing: int = 0
    #: Those that need somebody now.
    now: int = 0
    newest_at: dt.datetime | None = None

    @property
    def level(self) -> Level:
        """The worst of them."""
        if self.now:
            return Level.NOW
        return Level.LOOK if self.firing else Level.OK
