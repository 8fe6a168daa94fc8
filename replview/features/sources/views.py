"""Sources grouped by server; one source: its slots and publications, ours and others'."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from replview.access.page import OF_SOURCE, VIEWER, Nav, page
from replview.access.rights import Role, may
from replview.acts.publications import publications_of
from replview.features.sources.page import build_page
from replview.health.servers import clusters_of, feeds_of
from replview.ui.managed import EXPECTED, source_for, trouble_of
from replview.ui.shell import fleet_of


@page(role=VIEWER, nav=Nav(group="", label="Sources", icon="source", count="sources"))
@require_GET
def sources(request: HttpRequest) -> HttpResponse:
    """A block a source, worst first, its slots as lines; those of one cluster together."""
    fleet = fleet_of(request)
    page = {
        "fleet": fleet,
        "clusters": clusters_of(fleet),
        "feeds": feeds_of(fleet),
        "is_admin": may(request.user, Role.ADMIN),
    }
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "sources/list.html" if htmx else "sources/sources.html", page)


@page(role=VIEWER, nav="sources", of=OF_SOURCE)
@require_GET
def source(request: HttpRequest, source_name: str) -> HttpResponse:
    """One source."""
    row = source_for(request, source_name, Role.VIEWER)
    fleet = fleet_of(request)
    page = {
        "page": build_page(fleet, row),
        "is_admin": may(request.user, Role.ADMIN, row.pk),
        "is_operator": may(request.user, Role.OPERATOR, row.pk),
    }
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "sources/_source.html" if htmx else "sources/source.html", page)


@page(role=VIEWER, nav="sources", of=OF_SOURCE)
@require_GET
def publications(request: HttpRequest, source_name: str) -> HttpResponse:
    """The publications of its database as they are at this moment: a part of its page."""
    row = source_for(request, source_name, Role.VIEWER)
    page: dict[str, object] = {"source": row}
    try:
        page["views"] = publications_of(row)
    except EXPECTED as error:
        page["trouble"] = trouble_of(error)
    htmx = request.headers.get("HX-Request") == "true"
    template = "sources/_publications.html" if htmx else "sources/publications.html"
    return render(request, template, page)
