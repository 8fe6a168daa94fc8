"""Relations: all tables of a slot's stream, and the schema history of one."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from replview.access.page import GET, VIEWER, Nav, page
from replview.access.visibility import reading_session
from replview.features.relations.history_page import SchemaPage, read_schema_page
from replview.features.relations.page import read_relations_page, wanted_of
from replview.features.relations.schema_history import schema_history
from replview.features.relations.source_now import full_cost, read_source_now
from replview.store.models import Relation, RelationVersion
from replview.store.read.coverage import coverage_of
from replview.text.addresses import relation_url
from replview.ui.params import scope_to
from replview.ui.shell import no_slot, slot_view_of
from replview.ui.versions import shape_of


@page(GET, role=VIEWER, nav=Nav(group="Browse", label="Relations", icon="relations", one_slot=True))
def relations(request: HttpRequest) -> HttpResponse:
    view = slot_view_of(request)
    if view is None:
        cause = ("Tables are those of one slot's stream. The command shows every statement before "
                 "it runs one.")  # fmt: skip
        run = "replview slot add SOURCE SLOT"
        return no_slot(request, "Relations", "No table yet.", cause, run=run)
    page = read_relations_page(view.slot, wanted_of(request))
    return render(request, "relations/relations.html", {"page": page, "slot": view.slot})


@page(GET, role=VIEWER, nav="relations", of={"relation_id": Relation})
def relation(request: HttpRequest, relation_id: int) -> HttpResponse:
    """One table's versions; ``whole`` asks for what is else loaded afterwards."""
    row = _find(relation_id)
    scope_to(request, row.slot)
    page = read_schema_page(request, row)
    content: dict[str, Any] = {"page": page, "relation": row, "slot": row.slot}
    if request.GET.get("whole") == "1":
        content |= {"whole": True, **_evidence(row), **_now(row, page)}
    return render(request, "relations/relation.html", content)


@page(GET, role=VIEWER, of={"version_id": RelationVersion})
def version(request: HttpRequest, version_id: int) -> HttpResponse:
    """To the page that compares a version with the one before: what the slot's log links to."""
    row = get_object_or_404(Relation, versions__pk=version_id)
    number = row.versions.values_list("number", flat=True).get(pk=version_id)
    return redirect(relation_url(row.pk, to=str(number)))


@page(GET, role=VIEWER, of={"relation_id": Relation})
def evidence(request: HttpRequest, relation_id: int) -> HttpResponse:
    """What the record covers of a table, and what FULL would cost."""
    row = _find(relation_id)
    return render(request, "relations/_evidence.html", {"slot": row.slot, **_evidence(row)})


@page(GET, role=VIEWER, of={"relation_id": Relation})
def now(request: HttpRequest, relation_id: int) -> HttpResponse:
    """What the source's catalog says at this moment: at most five seconds."""
    row = _find(relation_id)
    scope_to(request, row.slot)
    content = _now(row, read_schema_page(request, row))
    return render(request, "relations/_now.html", {"relation": row, "slot": row.slot, **content})


def _find(relation_id: int) -> Relation:
    rows = Relation.objects.select_related("slot__source", "slot__incarnation")
    return get_object_or_404(rows, pk=relation_id)


def _evidence(row: Relation) -> dict[str, object]:
    return {
        "coverage": coverage_of(reading_session(), row.slot, table=(row.schema, row.table)),
        "cost": full_cost(schema_history(row)),
    }


def _now(row: Relation, page: SchemaPage) -> dict[str, object]:
    shapes = [shape_of(v.version) for v in page.history.versions]
    left_out = page.published.unpublished_columns if page.published else ()
    return {"now": read_source_now(row.slot.source, row, shapes, left_out)}
