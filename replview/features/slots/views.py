"""Slots: the list, one slot's page, and changing what a slot may cost its source."""

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
from replview.health.queries import Pace
from replview.health.watched import Causes, OtherView, other_view
from replview.store.models import Slot, Source, WatchedSlot
from replview.store.same_server import recorded_elsewhere
from replview.store.slot_budget import change_budget
from replview.ui.params import scope_to
from replview.ui.shell import fleet_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneSlotPage:
    """The page of a slot that was removed, or not added yet."""

    #: As the address names them, whatever they are.
    source_name: str
    slot_name: str
    #: Adds the slot; with placeholders where the source is not known or the names cannot be right.
    add_command: str


@page(GET, role=VIEWER, nav="slots", of=OF_SLOT)
def slot(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
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
    """The slot, which also becomes the scope of the page's header."""
    name = f"{source_name}/{slot_name}"
    if "slot" not in request.GET:
        scope_to(request, name)
    return fleet_of(request).find_slot(name)


def find_other(request: HttpRequest, source_name: str, slot_name: str) -> OtherView | None:
    """A slot that replview only watches; also one that is gone from its server lately."""
    fleet = fleet_of(request)
    found = fleet.find_other(f"{source_name}/{slot_name}")
    if found is not None:
        return found
    rows = WatchedSlot.objects.filter(source__name=source_name, name=slot_name, slot=None)
    row = rows.select_related("source").first()
    return None if row is None else other_view(row, Pace(), fleet.now, Causes(fleet.now))


def gone(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Dropped, or not yet created: what to do about it."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Refresh": "true"})
    page = gone_page(source_name, slot_name)
    return render(request, "slots/gone.html", {"page": page}, status=404)


def gone_page(source_name: str, slot_name: str) -> GoneSlotPage:
    """Return the page of a slot that replview does not receive."""
    command = "replview slot add SOURCE SLOT"
    # Only where the names can be right: an address is anybody's to write, a command is run.
    known = Source.objects.filter(name=source_name).exists()
    if known and re.fullmatch(r"[a-z0-9_]{1,63}", slot_name):
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
    """The page of a slot; ``error`` is what was wrong with a decision that was sent, ``budget``
    the form as it was sent, if that was refused.
    """
    stopped_by = quarantined(view.slot, request.user.get_username(), error=error, typed=typed)
    page = slot_page(view, request.GET, stopped_by, budget)
    htmx = request.headers.get("HX-Request") == "true"
    template = "slots/now.html" if htmx else "slots/slot.html"
    return render(request, template, {"page": page}, status=status)


def show_other(request: HttpRequest, view: OtherView, own: Slot | None = None) -> HttpResponse:
    """The page of a slot that is not ours; ``own``: through another source, which this user does
    not see, it is.
    """
    htmx = request.headers.get("HX-Request") == "true"
    template = "slots/watched_now.html" if htmx else "slots/watched.html"
    return render(request, template, {"page": watched_slot_page(view, own)})


@page(POST, role=OPERATOR, of=OF_SLOT)
def change(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Write the choice; what cannot be is shown again with why, on the slot's page."""
    row = Slot.objects.filter(source__name=source_name, name=slot_name, temporary=False)
    slot = row.exclude(desired=Slot.Desired.REMOVING).select_related("source").first()
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
    fleet = fleet_of(request)
    page = read_page(fleet, request.GET)
    htmx = request.headers.get("HX-Request") == "true"
    template = "slots/slots_now.html" if htmx else "slots/slots.html"
    return render(request, template, {"fleet": fleet, "page": page})
