"""The find page: changes by what they did to which values."""

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from replview.access.page import ROWS, VIEWER, Action, Nav, page
from replview.features.find.page import columns_of, read_page
from replview.store.write.access_record import searched_changes
from replview.ui.filters import saved_filters
from replview.ui.params import Params, scope_to, slot_asked_for


@page(
    role=VIEWER,
    nav=Nav(group="Browse", label="Find", icon="find", one_slot=True),
    record=(*ROWS, Action.SEARCHED),
)
@require_GET
def find(request: HttpRequest) -> HttpResponse:
    """The form, and what its words find. Every search is a link."""
    name = request.GET.get("slot", "")
    slot = slot_asked_for(name)
    if slot is None and name:
        raise Http404(f"there is no slot {name!r}")
    if slot is None:
        return render(request, "find/no_slot.html")
    page = read_page(request.GET, slot)
    searched_changes(page.wanted)
    # The header's scope is the slot that is searched, chosen or not.
    if not name:
        scope_to(request, slot)
    content = {"page": page, "slot": slot, "saved": saved_filters(request, "find")}
    return render(request, "find/find.html", content)


@page(role=VIEWER)
@require_GET
def columns(request: HttpRequest) -> HttpResponse:
    """``{"columns": [[name, type]]}`` of one table, to be offered while a condition is typed."""
    slot = slot_asked_for(request.GET.get("slot", ""))
    table = Params(request.GET).text("table", strip=False)
    return JsonResponse({"columns": columns_of(slot, [table]) if slot and table else []})
