"""Views of all tables in a slot's stream, and of one table's schema history."""

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from replview.access.page import GET, VIEWER, Nav, page
from replview.features.relations.history_page import read_evidence, read_now, read_schema_page
from replview.features.relations.page import read_relations_page, wanted_of
from replview.store.models import Relation, RelationVersion
from replview.text.addresses import relation_url
from replview.ui.params import scope_to
from replview.ui.shell import no_slot, slot_view_of


@page(GET, role=VIEWER, nav=Nav(group="Browse", label="Relations", icon="relations", one_slot=True))
def relations(request: HttpRequest) -> HttpResponse:
    """Show the tables of the selected slot's stream."""
    view = slot_view_of(request)
    if view is None:
        cause = "Tables are listed by slot. The command shows every statement before running it."
        run = "replview slot add SOURCE SLOT"
        return no_slot(request, "Relations", "No tables yet.", cause, run=run)
    page = read_relations_page(view.slot, wanted_of(request))
    return render(request, "relations/relations.html", {"page": page})


@page(GET, role=VIEWER, nav="relations", of={"relation_id": Relation})
def relation(request: HttpRequest, relation_id: int) -> HttpResponse:
    """Show one table's versions; ``whole=1`` includes the parts that are else loaded afterwards."""
    row = _find_relation(relation_id)
    scope_to(request, row.slot)
    page = read_schema_page(row, request.GET)
    if request.GET.get("whole") == "1":
        page = replace(page, evidence=read_evidence(row), now=read_now(page))
    return render(request, "relations/relation.html", {"page": page})


@page(GET, role=VIEWER, of={"version_id": RelationVersion})
def version(request: HttpRequest, version_id: int) -> HttpResponse:
    """Redirect to the comparison of a version with the one before; the slot's log links here."""
    row = get_object_or_404(Relation, versions__pk=version_id)
    number = row.versions.values_list("number", flat=True).get(pk=version_id)
    return redirect(relation_url(row.pk, to=str(number)))


@page(GET, role=VIEWER, of={"relation_id": Relation})
def evidence(request: HttpRequest, relation_id: int) -> HttpResponse:
    """Show the coverage of a table in the record, and the cost of replica identity FULL."""
    row = _find_relation(relation_id)
    return render(request, "relations/_evidence.html", {"evidence": read_evidence(row)})


@page(GET, role=VIEWER, of={"relation_id": Relation})
def now(request: HttpRequest, relation_id: int) -> HttpResponse:
    """Show the table in the source's catalog, which is queried for five seconds at most."""
    row = _find_relation(relation_id)
    scope_to(request, row.slot)
    content = {"relation": row, "now": read_now(read_schema_page(row, request.GET))}
    return render(request, "relations/_now.html", content)


def _find_relation(relation_id: int) -> Relation:
    rows = Relation.objects.select_related("slot__source", "slot__incarnation")
    return get_object_or_404(rows, pk=relation_id)
