"""What fired and what was over just now, for the toasts of open pages.

Read once in two seconds however many browsers ask; a browser keeps what it was told already.
"""

import datetime as dt
from dataclasses import dataclass

from django.core.cache import cache
from django.db.models import Q
from django.utils import timezone

from replview.features.alerts.pages.lines import AlertLine
from replview.store.models import Alert
from replview.store.models.seen import seen_sources

#: A page asks every few seconds; one that slept longer is told by its counts.
_NEWS_SECONDS = 60
_READ_EVERY_SECONDS = 2
#: More than this are told as a number.
_MOST = 50
_KEY = "alert-news"


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One alert that fired, or is over."""

    #: The same while it is the same news.
    key: str
    at: dt.datetime
    #: Of ``health.states``.
    level: str
    over: bool
    words: str
    url: str


def read_news() -> list[News]:
    """The newest last."""
    if seen_sources() is not None:  # of some sources alone: not everybody's news
        return _read(timezone.now())
    news: list[News] | None = cache.get(_KEY)
    if news is None:
        news = _read(timezone.now())
        cache.set(_KEY, news, _READ_EVERY_SECONDS)
    return news


def _read(now: dt.datetime) -> list[News]:
    since = now - dt.timedelta(seconds=_NEWS_SECONDS)
    lately = Q(fired_at__gte=since) | Q(cleared_at__gte=since, fired_at__isnull=False)
    rows = Alert.objects.filter(lately).select_related("rule", "source", "slot").order_by("-pk")
    found = [_news(AlertLine(row, now)) for row in rows[:_MOST]]
    return sorted(found, key=lambda one: one.at)


def _news(line: AlertLine) -> News:
    alert = line.alert
    over = not line.firing
    at = alert.cleared_at if over and alert.cleared_at else alert.fired_at
    assert at is not None
    return News(
        key=f"{alert.pk}-{alert.state}",
        at=at,
        level=str(line.level),
        over=over,
        words=line.over_sentence or line.sentence,
        url=line.url,
    )
