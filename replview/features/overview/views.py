"""View of the overview, and of the first page while there is no source."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from replview.access.page import GET, VIEWER, Nav, page
from replview.access.rights import Role, may
from replview.features.overview.page import FirstRunPage, build_overview_page
from replview.ui.shell import fleet_of


@page(GET, role=VIEWER, nav=Nav(group="Watch", label="Overview", icon="overview", tab=True))
def overview(request: HttpRequest) -> HttpResponse:
    """Show the overview; for htmx only the part that is refreshed."""
    fleet = fleet_of(request)
    htmx = request.headers.get("HX-Request") == "true"
    if htmx and ("first" in request.GET) != (not fleet.sources):
        # The first source was added or the last one removed, which needs the other page.
        return HttpResponse(headers={"HX-Refresh": "true"})
    if htmx and not fleet.sources:
        return HttpResponse(status=204)
    if not fleet.sources:
        first_run = FirstRunPage(may_add=may(request.user, Role.ADMIN))
        return render(request, "overview/first_run.html", {"page": first_run})
    template = "overview/now.html" if htmx else "overview/overview.html"
    return render(request, template, {"page": build_overview_page(fleet)})
