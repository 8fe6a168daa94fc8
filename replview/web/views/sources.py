"""Sources and their slots: state, position, options, what is wrong and what mends it."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from replview.web.shell import fleet_of


@require_GET
def sources(request: HttpRequest) -> HttpResponse:
    """A block a source, worst first, its slots as lines."""
    fleet = fleet_of(request)
    page = {"fleet": fleet}
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "sources/list.html" if htmx else "sources/sources.html", page)


@require_GET
def slots(request: HttpRequest) -> HttpResponse:
    """Every slot in one table, worst first."""
    fleet = fleet_of(request)
    views = sorted(fleet.slots, key=lambda view: (view.level.rank, str(view.slot)))
    page: dict[str, Any] = {"fleet": fleet, "slots": views}
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "slots/list.html" if htmx else "slots/slots.html", page)
