"""The filters in the addresses of the actors pages."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from replview.store.sums.actor_sums import SORTS
from replview.text.addresses import actor_url
from replview.text.parsing import whole_number
from replview.ui.params import Params

#: Maps the address's word to the number of days, including today; None means all days.
RANGES: dict[str, int | None] = {"1d": 1, "7d": 7, "30d": 30, "90d": 90, "all": None}
SORT_WORDS = {"last": "Last seen", "transactions": "Transactions", "changes": "Changes"}
_DEFAULT_RANGE = "30d"


@dataclass(frozen=True, slots=True)
class ActorsQuery:
    """The filters in the address; unknown values are ignored."""

    q: str = ""
    sort: str = "last"
    range: str = _DEFAULT_RANGE
    #: The ``order`` and name of the last actor on the page before.
    after: tuple[int, str] | None = None

    def url(self, slot: object, **changed: Any) -> str:
        """Return the list's address with some filters changed; it begins at the first page."""
        filters = replace(self, **{"after": None, **changed})
        params = {
            "slot": str(slot),
            "q": filters.q,
            "sort": filters.sort if filters.sort != "last" else "",
            "range": filters.range if filters.range != _DEFAULT_RANGE else "",
            "after": f"{filters.after[0]}~{filters.after[1]}" if filters.after else "",
        }
        query = {name: value for name, value in params.items() if value}
        return f"{reverse('actors')}?{urlencode(query, safe='/')}"

    def actor_url(self, slot: object, actor: str, **changed: Any) -> str:
        """Return the address of one actor's page with the same time range."""
        span = changed.get("range", self.range)
        range_query = "" if span == _DEFAULT_RANGE else "&" + urlencode({"range": span})
        return actor_url(str(slot), actor) + range_query

    def first_day(self, today: dt.date) -> dt.date | None:
        """Return the first day that is summed up, or None for the whole record."""
        days = RANGES[self.range]
        return None if days is None else today - dt.timedelta(days=days - 1)

    @property
    def words(self) -> str:
        """Return the time range in words, such as ``in the last 30 days``."""
        days = RANGES[self.range]
        if days is None:
            return "in the whole history"
        return "today (UTC)" if days == 1 else f"in the last {days} days"


def wanted_of(query: Mapping[str, str]) -> ActorsQuery:
    """Parse the address parameters."""
    params = Params(query)
    order_text, separator, name = params.text("after", 400, strip=False).partition("~")
    order = whole_number(order_text) if separator else None
    return ActorsQuery(
        q=params.text("q"),
        sort=params.choice("sort", SORTS, "last"),
        range=params.choice("range", RANGES, _DEFAULT_RANGE),
        after=None if order is None else (order, name[:300]),
    )
