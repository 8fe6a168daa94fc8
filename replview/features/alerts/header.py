"""The header's health on every page, and the news about alerts since the page was opened."""

import datetime as dt
import itertools
import threading
import time
from dataclasses import dataclass
from operator import attrgetter

from django.core.cache import cache
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from replview.access.page import GET, VIEWER, page
from replview.features.alerts.lines import AlertLine
from replview.health.fleet import Fleet, read_fleet
from replview.health.states import Level
from replview.store.models import Alert
from replview.store.models.seen import seen_sources
from replview.ui.page_fields import named_fields
from replview.ui.shell import build_shell
from replview.ui.shell_parts import Shell

#: Seconds that an alert is news; pages ask every few seconds.
_NEWS_SECONDS = 60
_NEWS_READ_EVERY_SECONDS = 2
#: Maximum number of alerts in the news.
_NEWS_LIMIT = 50
_NEWS_KEY = "recent-alerts"
#: Seconds that the shared fleet is cached: less than the pause between two requests of a page, but
#: longer with many slots, so that reading them takes at most a 20th of a process's time.
_FLEET_SECONDS, _FLEET_MAX_SECONDS, _FLEET_PART = 2, 10, 20
_FLEET_KEY = "shared-fleet"
_lock = threading.Lock()
_numbers = itertools.count(1)
_cached_fleet: tuple[int, Fleet] | None = None


def read_shared_fleet() -> Fleet:
    """Return the fleet, at most a few seconds old; one thread reads while others wait."""
    global _cached_fleet
    if seen_sources() is not None:
        return read_fleet()
    with _lock:
        # Cache only a number, whose expiry limits the age: pickling the fleet would be slow.
        if _cached_fleet is not None and cache.get(_FLEET_KEY) == _cached_fleet[0]:
            return _cached_fleet[1]
        started = time.thread_time()
        number, fleet = next(_numbers), read_fleet()
        _cached_fleet = (number, fleet)
        seconds = int(_FLEET_PART * (time.thread_time() - started))
        cache.set(_FLEET_KEY, number, min(max(seconds, _FLEET_SECONDS), _FLEET_MAX_SECONDS))
        return fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentAlert:
    """An alert that fired or was cleared lately."""

    #: Identifies the news: the alert's number and its state.
    key: str
    #: The moment at which the alert fired or was cleared.
    at: dt.datetime
    level: Level
    #: True when the alert was cleared.
    over: bool
    words: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderNow:
    """The part of a page's header that the page requests every few seconds."""

    #: The navigation's counts, and the health of the scope.
    shell: Shell
    news: list[RecentAlert]


@page(GET, role=VIEWER, polled=True)
def shell_health(request: HttpRequest) -> HttpResponse:
    """Return the header's health, the navigation's counts and the news."""
    return render(request, "ui/shell/health_now.html", named_fields(read_header(request)))


def read_header(request: HttpRequest) -> HeaderNow:
    """Read the header of a page, from the shared fleet."""
    request.replview_fleet = read_shared_fleet()  # type: ignore[attr-defined]
    return HeaderNow(shell=build_shell(request), news=read_news())


def read_news() -> list[RecentAlert]:
    """Return the alerts that fired or were cleared lately, the newest last."""
    if seen_sources() is not None:  # the account sees only some sources: do not use the cache
        return _read_recent(timezone.now())
    news: list[RecentAlert] | None = cache.get(_NEWS_KEY)
    if news is None:
        news = _read_recent(timezone.now())
        cache.set(_NEWS_KEY, news, _NEWS_READ_EVERY_SECONDS)
    return news


def _read_recent(now: dt.datetime) -> list[RecentAlert]:
    since = now - dt.timedelta(seconds=_NEWS_SECONDS)
    recent = Q(fired_at__gte=since) | Q(cleared_at__gte=since, fired_at__isnull=False)
    alerts = Alert.objects.filter(recent).select_related("rule", "source", "slot").order_by("-pk")
    news = []
    for alert in alerts[:_NEWS_LIMIT]:
        line = AlertLine(alert, now)
        cleared_at = None if line.firing else alert.cleared_at
        news.append(
            RecentAlert(
                key=f"{alert.pk}-{alert.state}",
                at=cleared_at or alert.fired_at or now,
                level=line.level,
                over=not line.firing,
                words=line.over_sentence or line.sentence,
                url=line.url,
            )
        )
    return sorted(news, key=attrgetter("at"))
