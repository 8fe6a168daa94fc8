"""Views of the list of slots, of one slot, and of the form of its WAL budget."""

import re
from dataclasses import dataclass
from shlex import quote

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from replview.access.guard import require_all_tables
from replview.access.page import GET, OF_SLOT, OPERATOR, POST, VIEWER, Nav, page
from replview.features.slots.budget import Budget, BudgetForm, budget_of
from replview.features.slots.list_page import read_page
from replview.features.slots.quarantine_text import quarantined
from replview.features.slots.slot_page import slot_page, watched_slot_page
from replview.health.fleet import SlotView
from replview.health.queries import SlotRates
from replview.health.watched import OtherView, other_view
from replview.store.models import Slot, Source, WatchedSlot
from replview.store.same_server import recorded_elsewhere
from replview.store.slot_budget import change_budget
from replview.ui.params import scope_to
from replview.ui.shell import fleet_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneSlotPage:
    """The page of a slot that was removed, or that was not added yet."""

    #: Names from the address, which may not exist.
    source_name: str
    slot_name: str
    #: Command that adds the slot; with placeholders if the names are unknown or invalid.
    add_command: str


@page(GET, role=VIEWER, nav="slots", of=OF_SLOT)
def slot(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Show one slot: received, only watched, or gone."""
    view = find(request, source_name, slot_name)
    if view is not None:
        return show(request, view)
    other = find_other(request, source_name, slot_name)
    if other is not None:
        own = recorded_elsewhere(other.server.source).get(slot_name)
        if own is not None and fleet_of(request).find_slot(str(own)) is not None:
            return redirect("slot", own.source.name, own.name)
        return show_other(request, other, own)
    return gone(request, source_name, slot_name)


def find(request: HttpRequest, source_name: str, slot_name: str) -> SlotView | None:
    """Return the slot if replview receives it, and make it the scope of the page's header."""
    name = f"{source_name}/{slot_name}"
    if "slot" not in request.GET:
        scope_to(request, name)
    return fleet_of(request).find_slot(name)


def find_other(request: HttpRequest, source_name: str, slot_name: str) -> OtherView | None:
    """Return a slot that replview only watches, even if it was dropped lately."""
    fleet = fleet_of(request)
    view = fleet.find_other(f"{source_name}/{slot_name}")
    if view is not None:
        return view
    rows = WatchedSlot.objects.filter(source__name=source_name, name=slot_name, slot=None)
    row = rows.select_related("source").first()
    return None if row is None else other_view(row, SlotRates(), fleet.now, fleet.causes)


def gone(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Show the page of a slot that is gone or not yet created, with the next step."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Refresh": "true"})
    page = gone_page(source_name, slot_name)
    return render(request, "slots/gone.html", {"page": page}, status=404)


def gone_page(source_name: str, slot_name: str) -> GoneSlotPage:
    """Build the page of a slot that replview does not receive."""
    command = "replview slot add SOURCE SLOT"
    # Put only valid names into the command: a link may contain any text, and commands get run.
    source_exists = Source.objects.filter(name=source_name).exists()
    if source_exists and re.fullmatch(r"[a-z0-9_]{1,63}", slot_name):
        command = f"replview slot add {quote(source_name)} {slot_name}"
    return GoneSlotPage(source_name=source_name, slot_name=slot_name, add_command=command)


def show(
    request: HttpRequest,
    view: SlotView,
    *,
    error: str = "",
    typed: str = "",
    budget: Budget | None = None,
    status: int = 200,
) -> HttpResponse:
    """Show the page of a slot that replview receives.

    ``error`` and ``typed`` belong to a decision about a quarantined message that was refused,
    ``budget`` holds a form that was refused.
    """
    stopped_by = quarantined(view.slot, request.user.get_username(), error=error, typed=typed)
    page = slot_page(view, request.GET, stopped_by, budget)
    htmx = request.headers.get("HX-Request") == "true"
    template = "slots/now.html" if htmx else "slots/slot.html"
    return render(request, template, {"page": page}, status=status)


def show_other(request: HttpRequest, view: OtherView, own: Slot | None = None) -> HttpResponse:
    """Show the page of a slot that replview only watches.

    ``own`` is replview's slot when it receives the same slot through another source that this
    account does not see.
    """
    htmx = request.headers.get("HX-Request") == "true"
    template = "slots/watched_now.html" if htmx else "slots/watched.html"
    return render(request, template, {"page": watched_slot_page(view, own)})


@page(POST, role=OPERATOR, of=OF_SLOT)
def change(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Change the budget; a refused form is shown again on the slot's page."""
    candidates = Slot.objects.filter(source__name=source_name, name=slot_name, temporary=False)
    slot = candidates.exclude(desired=Slot.Desired.REMOVING).select_related("source").first()
    if slot is None:
        raise Http404("there is no such slot whose budget can be changed")
    # At its budget a slot may be dropped.
    require_all_tables(request, slot.source)
    form = BudgetForm(slot, request.POST)
    if form.is_valid():
        change_budget(slot, form.changes(), by=request.user.get_username())
        return redirect(reverse("slot", args=[source_name, slot_name]) + "#budget")
    view = find(request, source_name, slot_name)
    if view is None:
        raise Http404("there is no such slot")
    return show(request, view, budget=budget_of(slot, form), status=422)


@page(GET, role=VIEWER, nav=Nav(group="Health", label="Slots", icon="slot", count="slots"))
def slots(request: HttpRequest) -> HttpResponse:
    """Show the list of slots; for htmx only the part that is refreshed."""
    fleet = fleet_of(request)
    page = read_page(fleet, request.GET)
    htmx = request.headers.get("HX-Request") == "true"
    template = "slots/slots_now.html" if htmx else "slots/slots.html"
    return render(request, template, {"fleet": fleet, "page": page})
