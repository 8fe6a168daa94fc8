"""The query of the lag page, read from its address: slots, range and charts."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from replview.store.read.transactions.filter_values import read_time
from replview.ui.params import Params

#: Word in the address → the page's name for the range, and its length.
RANGES: Mapping[str, tuple[str, dt.timedelta]] = {
    "5m": ("5 min", dt.timedelta(minutes=5)),
    "15m": ("15 min", dt.timedelta(minutes=15)),
    "1h": ("1 h", dt.timedelta(hours=1)),
    "3h": ("3 h", dt.timedelta(hours=3)),
    "24h": ("24 h", dt.timedelta(hours=24)),
    "30d": ("30 d", dt.timedelta(days=30)),
    "1y": ("1 year", dt.timedelta(days=366)),
}
DEFAULT_RANGE = "1h"
#: Word in the address → the page's title of the chart.
CHARTS: Mapping[str, str] = {
    "retained": "Retained WAL",
    "unconfirmed": "Unconfirmed WAL",
    "lag": "Lag in seconds",
    "throughput": "Throughput",
    "commits": "Commits",
    "stored": "Commit to stored",
    "tables": "Changes by table",
    "table-bytes": "Bytes by table",
    "sizes": "Transactions by size",
    "spill": "Decoded, spilled, streamed",
    "batch": "Receiver: batch size",
    "memory": "Receiver: memory",
}
_DEFAULT_CHARTS = ("retained", "lag", "throughput")
#: A shorter range may hold no two samples.
_SHORTEST = dt.timedelta(seconds=10)
_LONGEST = dt.timedelta(days=3660)


def range_covering(age: dt.timedelta) -> str:
    """Return the shortest range that covers a record of this age, at most the default range."""
    return next(
        (name for name, (_, length) in RANGES.items() if age <= length or name == DEFAULT_RANGE),
        DEFAULT_RANGE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LagQuery:
    """The parameters of the address; a missing one has its default."""

    slots: tuple[str, ...] = ()
    range: str = DEFAULT_RANGE
    #: The bounds as given, where a fixed range is wanted instead of the latest.
    since: str = ""
    until: str = ""
    charts: tuple[str, ...] = _DEFAULT_CHARTS
    table: bool = False
    #: Parameters that were invalid, and are ignored.
    misread: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, words: QueryDict) -> "LagQuery":
        """Read the parameters of an address."""
        params = Params(words)
        range_name = params.choice("range", RANGES, DEFAULT_RANGE)
        misread = ["range"] if words.get("range", range_name) != range_name else []
        names = [name for word in words.getlist("charts") for name in word.split(",") if name]
        charts = tuple(name for name in CHARTS if name in names) or _DEFAULT_CHARTS
        if any(name not in CHARTS for name in names):
            misread.append("charts")
        since, until = params.text("from", 40), params.text("to", 40)
        query = cls(
            slots=tuple(dict.fromkeys(name for name in words.getlist("slot") if name)),
            range=range_name,
            since=since,
            until=until,
            charts=charts,
            table=params.flag("table", "1"),
        )
        now = dt.datetime.now(dt.UTC)
        if (since or until) and query._fixed_range(now) is None:
            misread.append("from and to")
            query = replace(query, since="", until="")
        return replace(query, misread=tuple(misread))

    @property
    def live(self) -> bool:
        """Return whether the range extends to the present."""
        return not self.until

    def stretch(self, now: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        """Return the begin and end of the range."""
        return self._fixed_range(now) or (now - RANGES[self.range][1], now)

    def _fixed_range(self, now: dt.datetime) -> tuple[dt.datetime, dt.datetime] | None:
        """Return the fixed range; None where none is given, or it is invalid."""
        if not (self.since or self.until):
            return None
        until = read_time(self.until, now) if self.until else now
        since = read_time(self.since, now) if self.since else None
        if until is not None and since is None and not self.since:
            since = until - RANGES[self.range][1]
        if since is None or until is None or not _SHORTEST <= until - since <= _LONGEST:
            return None
        return since, until

    def words(self, **changed: str | tuple[str, ...]) -> str:
        """Return the query string with some parameters changed; an empty one is left out."""
        params: dict[str, str | tuple[str, ...]] = {
            "slot": self.slots,
            "range": self.range,
            "from": self.since,
            "to": self.until,
            "charts": "" if self.charts == _DEFAULT_CHARTS else ",".join(self.charts),
            "table": "1" if self.table else "",
            **changed,
        }
        present = {name: word for name, word in params.items() if word}
        return urlencode(present, doseq=True, safe="/,:")

    def url(self, **changed: str | tuple[str, ...]) -> str:
        """Return the address of the lag page with some parameters changed."""
        return f"{reverse('lag')}?{self.words(**changed)}"
