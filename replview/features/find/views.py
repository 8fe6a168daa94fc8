"""The views of the find page."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from replview.access.page import GET, ROWS, VIEWER, Action, Nav, page
from replview.access.visibility import reading_session
from replview.features.find.columns import BESIDE_LINE, COLUMNS, IN_LINE
from replview.features.find.page import columns_in, read_page
from replview.store.read.relation_shapes import shapes_named
from replview.store.write.search_record import searched_changes
from replview.text.parsing import read_table_word
from replview.ui.params import Params, slot_asked_for, slot_of
from replview.ui.saved_filters import saved_filters
from replview.ui.shell import no_record


@page(
    GET,
    role=VIEWER,
    nav=Nav(group="Browse", label="Find", icon="find", one_slot=True),
    record=(*ROWS, Action.SEARCHED),
)
def find(request: HttpRequest) -> HttpResponse:
    """Show the form and the changes that match; every search is a link."""
    slot = slot_of(request)
    if slot is None:
        purpose = "finds changes by the values they wrote"
        return no_record(request, "Find", "No slot to search.", purpose)
    page = read_page(request.GET, slot)
    searched_changes(page.wanted)
    context = {
        "page": page,
        "slot": slot,
        "columns": COLUMNS,
        "columns_in_line": IN_LINE,
        "columns_beside_line": BESIDE_LINE,
        "saved": saved_filters(request, "find"),
    }
    return render(request, "find/find.html", context)


@page(GET, role=VIEWER)
def columns(request: HttpRequest) -> HttpResponse:
    """Return ``{"columns": [[name, type]]}`` of a table, as suggestions for a condition."""
    slot = slot_asked_for(request.GET.get("slot", ""))
    table = Params(request.GET).text("table", strip=False)
    shapes = (
        shapes_named(reading_session(), slot, [read_table_word(table)]) if slot and table else []
    )
    return JsonResponse({"columns": columns_in(shapes)})
