"""Every slot of every source in one table, worst first."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from replview.features.slots.list_page import build_page, read_filter
from replview.store.failover_readiness import read_failover_settings, waits_for_none
from replview.ui.shell import fleet_of


@require_GET
def slots(request: HttpRequest) -> HttpResponse:
    """The whole page, or for htmx the part that changes."""
    fleet = fleet_of(request)
    settings = read_failover_settings(view.source.pk for view in fleet.sources)
    waits = {pk: waits_for_none(told) for pk, told in settings.items()}
    page = {"fleet": fleet, "page": build_page(fleet, read_filter(request.GET, fleet), waits)}
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "slots/slots_now.html" if htmx else "slots/slots.html", page)
