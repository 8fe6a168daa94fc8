"""The in-flight page's filters: all of them stand in its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from replview.features.in_flight.queries import OpenWanted
from replview.text.formats import NO_BREAK, age_words
from replview.ui.params import Params

STATES = ("streaming", "prepared")
#: Ages offered, in seconds.
AGES = (0, 60, 300, 3600, 86400)
#: Rows of a kind drawn at first: all are drawn anew about once a second.
ROWS = 50
#: And with each "show more".
_MORE_ROWS = 100
_ROWS_MAX = 1000
_TEXT_LIMIT = 200
_AGE_MAX = 366 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightQuery:
    """An empty filter lets everything through."""

    source: str = ""
    #: ``source/name``.
    slot: str = ""
    state: str = ""
    older_seconds: int = 0
    text: str = ""
    rows: int = ROWS
    #: The transaction in the drawer.
    chosen: int | None = None

    @classmethod
    def from_words(cls, words: Mapping[str, object]) -> "InFlightQuery":
        """From an address's parameters; what is not understood is left out."""
        asked = Params(words)
        return cls(
            source=asked.text("source", strip=False),
            slot=asked.text("slot", strip=False),
            state=asked.choice("state", STATES),
            older_seconds=min(asked.number("older") or 0, _AGE_MAX),
            text=asked.text("q", _TEXT_LIMIT),
            rows=min(max(asked.number("rows") or ROWS, ROWS), _ROWS_MAX),
            chosen=asked.number("tx"),
        )

    def url(self, **changes: Any) -> str:
        query = self.query_with(**changes)
        return f"{reverse('in-flight')}{'?' if query else ''}{query}"

    def query_with(self, **changes: Any) -> str:
        """The address's parameters with some of the filters changed."""
        values: dict[str, Any] = {
            "source": self.source,
            "slot": self.slot,
            "state": self.state,
            "older": self.older_seconds or "",
            "q": self.text,
            "rows": self.rows if self.rows != ROWS else "",
            "tx": self.chosen or "",
        }
        values |= changes
        return urlencode({name: value for name, value in values.items() if value}, safe="/")

    @property
    def query(self) -> str:
        """The address's parameters without the transaction in the drawer."""
        return self.query_with(tx="", rows="")

    @property
    def narrowed(self) -> bool:
        return bool(self.state or self.older_seconds or self.text)

    @property
    def more_url(self) -> str | None:
        """The same with more rows; None where no more are drawn."""
        more = min(self.rows + _MORE_ROWS, _ROWS_MAX)
        return self.url(rows=more) if more > self.rows else None

    @property
    def clear_url(self) -> str:
        return self.url(state="", older="", q="")

    def states(self) -> list[tuple[str, str, bool]]:
        return [
            (state or "any", self.url(state=state, rows=""), state == self.state)
            for state in ("", *STATES)
        ]

    def ages(self) -> list[tuple[str, str, bool]]:
        ages = sorted({*AGES, self.older_seconds})
        return [
            (age_words(age).replace(f"0{NO_BREAK}s", "any age") if not age else age_words(age),
             self.url(older=age or "", rows=""), age == self.older_seconds)
            for age in ages
        ]  # fmt: skip

    def wanted(self, incarnations: list[int], now: datetime, *, whole: bool = False) -> OpenWanted:
        """What to read; ``whole`` leaves out what narrows it."""
        if whole:
            return OpenWanted(incarnations=incarnations)
        older = now - timedelta(seconds=self.older_seconds) if self.older_seconds else None
        return OpenWanted(incarnations=incarnations, state=self.state, until=older, text=self.text)
