"""Views of alerts: list them, show one, and mark them as seen."""

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from replview.access.page import GET, OF_ALERT, OPERATOR, POST, VIEWER, Nav, page
from replview.features.alerts.kinds import kind_of
from replview.features.alerts.messages import announce
from replview.features.alerts.page import build_alert_page, find_line, read_alerts_page, wanted_of
from replview.store.models import Alert
from replview.ui.shell import fleet_of


@page(GET, role=VIEWER, nav=Nav(group="Health", label="Alerts", icon="alerts", count="alerts"))
def alerts(request: HttpRequest) -> HttpResponse:
    """List the alerts; htmx requests get only the part that changes."""
    page = read_alerts_page(wanted_of(request.GET))
    htmx = request.headers.get("HX-Request") == "true"
    template = "alerts/now.html" if htmx else "alerts/alerts.html"
    return render(request, template, {"page": page})


@page(GET, role=VIEWER, nav="alerts", of=OF_ALERT)
def alert(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Show one alert; htmx requests get only the part that changes."""
    line = find_line(alert_id)
    if line is None:
        raise Http404("there is no such alert")
    page = build_alert_page(line, fleet_of(request))
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "alerts/alert_now.html" if htmx else "alerts/alert.html", {"page": page})


@page(POST, role=OPERATOR, of=OF_ALERT)
def seen(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Mark the alert as seen, which ends an alert about an event."""
    if not _mark_seen(request, [alert_id]):
        raise Http404("there is no such alert")
    return redirect(reverse("alert", args=[alert_id]))


@page(POST, role=OPERATOR)
def all_seen(request: HttpRequest) -> HttpResponse:
    """Mark all firing alerts as seen."""
    firing = Alert.objects.filter(state=Alert.State.FIRING, seen_at=None)
    _mark_seen(request, list(firing.values_list("pk", flat=True)))
    return redirect("alerts")


def _mark_seen(request: HttpRequest, alert_ids: list[int]) -> int:
    now, by = timezone.now(), request.user.get_username()
    with transaction.atomic():
        query = Alert.objects.select_for_update(of=("self",)).select_related("rule")
        rows = list(query.filter(pk__in=alert_ids, fired_at__isnull=False))
        for row in rows:
            if row.seen_at is None:
                row.seen_at, row.seen_by = now, by
            ends = row.state == Alert.State.FIRING and kind_of(row.rule).event
            if ends:
                row.state, row.cleared_at = Alert.State.CLEARED, now
                row.detail["over_because"] = f"{by} has seen it"
            row.save(update_fields=["seen_at", "seen_by", "state", "cleared_at", "detail"])
            if ends:
                announce(row, now)
    return len(rows)
