"""Alerts: what fires and what has fired, one of them, and that somebody has seen it."""

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from replview.access.page import OF_ALERT, OPERATOR, VIEWER, Nav, page
from replview.features.alerts.pages.filters import wanted_of
from replview.features.alerts.pages.page import find_line, read_alerts_page
from replview.features.alerts.rules.kinds import KINDS
from replview.features.alerts.rules.outbox import tell
from replview.store.models import Alert, Delivery

_DELIVERIES_SHOWN = 50


@page(role=VIEWER, nav=Nav(group="Health", label="Alerts", icon="alerts", count="alerts"))
@require_GET
def alerts(request: HttpRequest) -> HttpResponse:
    """The whole page, or for htmx the part that changes."""
    page = read_alerts_page(wanted_of(request))
    htmx = request.headers.get("HX-Request") == "true"
    template = "alerts/now.html" if htmx else "alerts/alerts.html"
    return render(request, template, {"page": page, "sentence": page.sentence})


@page(role=VIEWER, nav="alerts", of=OF_ALERT)
@require_GET
def alert(request: HttpRequest, alert_id: int) -> HttpResponse:
    """One alert: its values, where to look, what to do, who was told."""
    line = find_line(alert_id)
    if line is None:
        raise Http404("there is no such alert")
    deliveries = Delivery.objects.filter(alert=line.alert).select_related("webhook")
    page = {"line": line, "deliveries": deliveries.order_by("pk")[:_DELIVERIES_SHOWN]}
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "alerts/alert_now.html" if htmx else "alerts/alert.html", page)


@page(role=OPERATOR, of=OF_ALERT)
@require_POST
def seen(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Somebody has seen it; an event is over with that."""
    if not _mark(request, [alert_id]):
        raise Http404("there is no such alert")
    return redirect(reverse("alert", args=[alert_id]))


@page(role=OPERATOR)
@require_POST
def all_seen(request: HttpRequest) -> HttpResponse:
    """Somebody has seen all that fire."""
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
                tell(row, now)
    return len(found)
