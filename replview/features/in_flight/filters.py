"""The filters of the in-flight page, which are all in its address.

None of them is a field of ``TransactionFilter``. A state also finds transactions that have ended
and were in it; an age is the time in the present state; a text is searched in gid, xid and table
names alone, not in values, because the page is read again about once a second.
"""

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
#: Minimum ages that the filter offers, in seconds.
AGES = (0, 60, 300, 3600, 86400)
#: Rows of each kind at first; few, because they are drawn again about once a second.
ROWS = 50
#: Further rows with each "show more".
_ROWS_ADDED = 100
_ROWS_MAX = 1000
_TEXT_LIMIT = 200
_AGE_MAX = 366 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightQuery:
    """The filters in the address; an empty filter excludes nothing."""

    source: str = ""
    #: ``source/name``.
    slot: str = ""
    state: str = ""
    older_seconds: int = 0
    text: str = ""
    rows: int = ROWS
    #: Id of the transaction in the drawer.
    chosen: int | None = None

    @classmethod
    def from_words(cls, query: Mapping[str, object]) -> "InFlightQuery":
        """Parse the address parameters; unknown values are ignored."""
        params = Params(query)
        return cls(
            source=params.text("source", strip=False),
            slot=params.text("slot", strip=False),
            state=params.choice("state", STATES),
            older_seconds=min(params.number("older") or 0, _AGE_MAX),
            text=params.text("q", _TEXT_LIMIT),
            rows=min(max(params.number("rows") or ROWS, ROWS), _ROWS_MAX),
            chosen=params.number("tx"),
        )

    def url(self, **changes: Any) -> str:
        """Return the page's address with some of the filters changed."""
        query = self.query_with(**changes)
        return f"{reverse('in-flight')}{'?' if query else ''}{query}"

    def query_with(self, **changes: Any) -> str:
        """Return the address parameters with some of the filters changed."""
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
        """Return the address parameters without the drawer and the number of rows."""
        return self.query_with(tx="", rows="")

    @property
    def narrowed(self) -> bool:
        """Return whether a filter besides source and slot is set."""
        return bool(self.state or self.older_seconds or self.text)

    @property
    def more_url(self) -> str | None:
        """Return the address with more rows; None at the maximum."""
        more = min(self.rows + _ROWS_ADDED, _ROWS_MAX)
        return self.url(rows=more) if more > self.rows else None

    @property
    def clear_url(self) -> str:
        """Return the address without filters, except source and slot."""
        return self.url(state="", older="", q="")

    def states(self) -> list[tuple[str, str, bool]]:
        """Return the states as (label, address, chosen)."""
        return [
            (state or "any", self.url(state=state, rows=""), state == self.state)
            for state in ("", *STATES)
        ]

    def ages(self) -> list[tuple[str, str, bool]]:
        """Return the ages as (label, address, chosen)."""
        ages = sorted({*AGES, self.older_seconds})
        return [
            (age_words(age).replace(f"0{NO_BREAK}s", "any age") if not age else age_words(age),
             self.url(older=age or "", rows=""), age == self.older_seconds)
            for age in ages
        ]  # fmt: skip

    def wanted(self, incarnations: list[int], now: datetime, *, whole: bool = False) -> OpenWanted:
        """Return what to read; ``whole`` ignores state, age and text."""
        if whole:
            return OpenWanted(incarnations=incarnations)
        until = now - timedelta(seconds=self.older_seconds) if self.older_seconds else None
        return OpenWanted(incarnations=incarnations, state=self.state, until=until, text=self.text)
