"""Alerts: what fires and has fired, that somebody has seen it, webhooks, the header's health."""

import datetime as dt
import itertools
import threading
import time
from dataclasses import replace
from operator import itemgetter
from typing import Any

from django.core.cache import cache
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from replview.access.page import ADMIN, GET, GET_POST, OF_ALERT, OPERATOR, POST, VIEWER, Nav, page
from replview.features.alerts.kinds import KINDS
from replview.features.alerts.lines import AlertLine
from replview.features.alerts.messages import announce
from replview.features.alerts.page import find_line, read_alerts_page, wanted_of
from replview.features.alerts.webhooks import (
    WebhookProblem,
    add_webhook,
    remove_webhook,
    send_test,
    switch_webhook,
)
from replview.health.fleet import Fleet, read_fleet
from replview.store.models import Alert, AlertRule, Delivery, Webhook
from replview.store.models.seen import seen_sources
from replview.text.parsing import clean_text
from replview.ui.shell import build_shell, fleet_of

_DELIVERIES_SHOWN = 50
#: A page asks every few seconds; one that slept longer sees the counts alone.
_NEWS_SECONDS = 60
_NEWS_READ_EVERY_SECONDS = 2
#: More than this are shown as a number.
_MOST_NEWS = 50
_NEWS_KEY = "alert-news"
#: As old as a header may be: less than the pause between two of its questions. Of very many slots
#: it is kept longer: a process spends no more than one part in so many of its time on reading them.
_FLEET_SECONDS, _FLEET_MOST_SECONDS, _FLEET_PART = 2, 10, 20
_FLEET_KEY = "shared-fleet"
_lock = threading.Lock()
_numbers = itertools.count(1)
_held: tuple[int, Fleet] | None = None
_LAST_DELIVERIES = 50
_SHOWN_AGAIN = ("name", "format", "allow_private", "only_now")


@page(GET, role=VIEWER, nav=Nav(group="Health", label="Alerts", icon="alerts", count="alerts"))
def alerts(request: HttpRequest) -> HttpResponse:
    page = read_alerts_page(wanted_of(request))
    htmx = request.headers.get("HX-Request") == "true"
    template = "alerts/now.html" if htmx else "alerts/alerts.html"
    return render(request, template, {"page": page, "sentence": page.sentence})


@page(GET, role=VIEWER, nav="alerts", of=OF_ALERT)
def alert(request: HttpRequest, alert_id: int) -> HttpResponse:
    line = find_line(alert_id)
    if line is None:
        raise Http404("there is no such alert")
    fleet = fleet_of(request)
    if view := fleet.find_slot(line.what) or fleet.find_other(line.what):
        line = replace(line, next_step=view.health.next_step)
    deliveries = Delivery.objects.filter(alert=line.alert).select_related("webhook")
    page = {"line": line, "deliveries": deliveries.order_by("pk")[:_DELIVERIES_SHOWN]}
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "alerts/alert_now.html" if htmx else "alerts/alert.html", page)


@page(POST, role=OPERATOR, of=OF_ALERT)
def seen(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Somebody has seen it; an event is over with that."""
    if not _mark(request, [alert_id]):
        raise Http404("there is no such alert")
    return redirect(reverse("alert", args=[alert_id]))


@page(POST, role=OPERATOR)
def all_seen(request: HttpRequest) -> HttpResponse:
    firing = Alert.objects.filter(state=Alert.State.FIRING, seen_at=None)
    _mark(request, list(firing.values_list("pk", flat=True)))
    return redirect("alerts")


def _mark(request: HttpRequest, numbers: list[int]) -> int:
    now, by = timezone.now(), request.user.get_username()
    with transaction.atomic():
        rows = Alert.objects.select_for_update(of=("self",)).select_related("rule")
        found = list(rows.filter(pk__in=numbers, fired_at__isnull=False))
        for row in found:
            if row.seen_at is None:
                row.seen_at, row.seen_by = now, by
            ends = row.state == Alert.State.FIRING and KINDS[row.rule.kind].event
            if ends:
                row.state, row.cleared_at = Alert.State.CLEARED, now
                row.detail["over_because"] = f"{by} has seen it"
            row.save(update_fields=["seen_at", "seen_by", "state", "cleared_at", "detail"])
            if ends:
                announce(row, now)
    return len(found)


@page(GET, role=VIEWER, polled=True)
def shell_health(request: HttpRequest) -> HttpResponse:
    """The header's health of the scope, with the navigation's counts and the news beside it."""
    request.replview_fleet = read_shared_fleet()  # type: ignore[attr-defined]
    page = {"shell": build_shell(request), "news": read_news()}
    return render(request, "ui/shell/health_now.html", page)


def read_shared_fleet() -> Fleet:
    """The fleet, a few seconds old. One reads while the others wait for it."""
    global _held
    if seen_sources() is not None:
        return read_fleet()
    with _lock:
        # The cache says how long; the fleet itself is not packed into it and out again.
        if _held is not None and cache.get(_FLEET_KEY) == _held[0]:
            return _held[1]
        began = time.thread_time()
        number, fleet = next(_numbers), read_fleet()
        _held = (number, fleet)
        seconds = int(_FLEET_PART * (time.thread_time() - began))
        cache.set(_FLEET_KEY, number, min(max(seconds, _FLEET_SECONDS), _FLEET_MOST_SECONDS))
        return fleet


#: One alert that fired, or is over; its ``key`` is the same while it is the same news.
News = dict[str, Any]


def read_news() -> list[News]:
    """The newest last."""
    if seen_sources() is not None:  # of some sources alone: not everybody's news
        return _read(timezone.now())
    news: list[News] | None = cache.get(_NEWS_KEY)
    if news is None:
        news = _read(timezone.now())
        cache.set(_NEWS_KEY, news, _NEWS_READ_EVERY_SECONDS)
    return news


def _read(now: dt.datetime) -> list[News]:
    since = now - dt.timedelta(seconds=_NEWS_SECONDS)
    lately = Q(fired_at__gte=since) | Q(cleared_at__gte=since, fired_at__isnull=False)
    rows = Alert.objects.filter(lately).select_related("rule", "source", "slot").order_by("-pk")
    found = []
    for row in rows[:_MOST_NEWS]:
        line = AlertLine(row, now)
        at = None if line.firing else row.cleared_at
        found.append(
            {
                "key": f"{row.pk}-{row.state}",
                "at": at or row.fired_at or now,
                "level": str(line.level),
                "over": not line.firing,
                "words": line.over_sentence or line.sentence,
                "url": line.url,
            }
        )
    return sorted(found, key=itemgetter("at"))


@page(GET_POST, role=ADMIN, nav="alerts")
@never_cache
def webhooks(request: HttpRequest) -> HttpResponse:
    """The list and the form; a new webhook's secret is shown in the answer, once."""
    page: dict[str, object] = {"values": {"format": "json"}, "errors": {}}
    status = 200
    if request.method == "POST":
        sent = request.POST
        try:
            page["made"], page["secret"] = add_webhook(
                clean_text(sent.get("name"), strip=False),
                clean_text(sent.get("url"), strip=False),
                by=request.user.get_username(),
                secret=clean_text(sent.get("secret"), strip=False),
                format=sent.get("format", ""),
                allow_private=sent.get("allow_private") == "on",
                severities=[AlertRule.Severity.NOW] if sent.get("only_now") == "on" else [],
            )
        except WebhookProblem as error:
            page["values"] = {name: sent.get(name, "")[:200] for name in _SHOWN_AGAIN}
            page["errors"] = {error.field: str(error)}
            status = 422
    htmx = request.headers.get("HX-Request") == "true"
    template = "alerts/_webhooks.html" if htmx else "alerts/webhooks.html"
    return render(request, template, {**page, **_listed()}, status=status)


@page(POST, role=ADMIN, of={"webhook_id": None})
def change(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """Send a test message, switch on or off, or delete."""
    webhook, action = get_object_or_404(Webhook, pk=webhook_id), request.POST.get("action", "")
    if action == "test":
        send_test(webhook)
    elif action in ("on", "off"):
        switch_webhook(webhook, on=action == "on")
    elif action == "delete":
        remove_webhook(webhook)
    return redirect(f"{reverse('webhooks')}#deliveries" if action == "test" else "webhooks")


def _listed() -> dict[str, object]:
    tried = Delivery.objects.filter(attempts__gt=0).order_by("webhook_id", "-pk")
    last = {one.webhook_id: one for one in tried.distinct("webhook_id")}
    deliveries = Delivery.objects.select_related("webhook", "alert").order_by("-pk")
    return {
        "rows": [(row, last.get(row.pk)) for row in Webhook.objects.all()],
        "deliveries": list(deliveries[:_LAST_DELIVERIES]),
    }
