"""Sources and their slots: state, position, options, what is wrong and what mends it."""

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
