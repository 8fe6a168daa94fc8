"""Slots: the list, one slot's page, and changing what a slot may cost its source."""

import re
from shlex import quote
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from replview.access.page import GET, OF_SLOT, OPERATOR, POST, VIEWER, Nav, page
from replview.catalog.peekable import PLUGINS
from replview.features.slots.budget_form import BudgetForm, budget_of
from replview.features.slots.facts import server_side
from replview.features.slots.list_page import build_page, read_filter
from replview.features.slots.quarantine_text import quarantined
from replview.features.slots.retained import charts_of, retained_of
from replview.health.fleet import SlotView
from replview.health.queries import Pace
from replview.health.watched import Causes, OtherView, other_view
from replview.store.failover_readiness import read_failover_settings, waits_for_none
from replview.store.models import Slot, SlotIncarnation, Source, WatchedSlot
from replview.store.quarantine import settled_quarantines
from replview.store.same_server import recorded_elsewhere
from replview.store.slot_budget import change_budget
from replview.store.slot_log import line_of, read_log
from replview.text.addresses import stream_url
from replview.text.parsing import clean_text
from replview.ui.params import Params, scope_to
from replview.ui.shell import fleet_of
from replview.ui.slot_log import choices_of, lines_of, query_of

LOG_LINES = 50
#: Incarnations shown at once; earlier ones are folded.
INCARNATIONS_SHOWN = 4
_INCARNATIONS_READ = 50
_KINDS_ASKED = 30
REASONS = {
    "created": "created by replview",
    "adopted": "adopted as it was found",
    "recreated": "the slot was created anew",
    "temporary": "the connection was lost, and with it the temporary slot",
    "re-pointed": "the source is another cluster",
    "timeline": "the source went to another timeline",
    "advanced": "the slot stood beyond our record",
    "failover": "the source failed over to a promoted standby",
    "rewound": "the server's WAL ended before our record",
}


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
    names = {"source_name": source_name, "slot_name": slot_name}
    # Only where the names can be right: an address is anybody's to write, a command is run.
    known = Source.objects.filter(name=source_name).exists()
    if known and re.fullmatch(r"[a-z0-9_]{1,63}", slot_name):
        names["add_command"] = f"replview slot add {quote(source_name)} {slot_name}"
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Refresh": "true"})
    return render(request, "slots/gone.html", names, status=404)


def show(
    request: HttpRequest,
    view: SlotView,
    *,
    error: str = "",
    typed: str = "",
    budget: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page of a slot; ``error`` is what was wrong with a decision that was sent, ``budget``
    the form as it was sent, if that was refused.
    """
    stopped_by = quarantined(view.slot, request.user.get_username(), error=error, typed=typed)
    page = {
        "view": view,
        "slot": view.slot,
        **server_side(view.server, view.slot, view.reading, timezone.now()),
        "quarantined": stopped_by,
        "settled": settled_quarantines(view.slot),
        "retained": retained_of(view),
        "charts": charts_of(view.full_name, view.slot.source_id),
        "budget": None if view.slot.temporary else budget or budget_of(view.slot),
        "log_command": f"replview slot log {quote(view.slot.source.name)} {view.slot.name} "
        "--follow",
        # Where somebody must decide, that is the one thing to do.
        "live_url": "" if stopped_by and stopped_by.undecided else stream_url(view.slot),
        **_incarnations(view.slot),
        **_log(request, view.slot),
    }
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "slots/now.html" if htmx else "slots/slot.html", page, status=status)


def show_other(request: HttpRequest, view: OtherView, own: Slot | None = None) -> HttpResponse:
    """The page of a slot that is not ours: no incarnations and no log, as nothing is received.

    ``own``: through another source, which this user does not see, it is.
    """
    source = view.server.source
    readable = view.server.plugin in PLUGINS and not view.server.physical
    page = {
        "view": view,
        "retained": retained_of(view),
        "charts": charts_of(view.full_name, source.pk),
        "adopt_command": f"replview slot add {quote(source.name)} {quote(view.name)} --adopt"
        if readable and own is None and not view.lost and not view.server.gone_at
        else "",
        **server_side(view.server, None, view.reading, timezone.now()),
    }
    if own is not None:
        # Nobody drops it as somebody else's.
        page["steps"] = []
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "slots/watched_now.html" if htmx else "slots/watched.html", page)


def _incarnations(row: Slot) -> dict[str, object]:
    """The present incarnation first."""
    found = list(SlotIncarnation.objects.filter(slot=row).order_by("-number")[:_INCARNATIONS_READ])
    incarnations = [
        {"incarnation": one, "reason": REASONS.get(one.reason, one.reason),
         "present": one.pk == row.incarnation_id}
        for one in found
    ]  # fmt: skip
    present = next((one for one in found if one.pk == row.incarnation_id), None)
    return {
        "incarnations": incarnations[:INCARNATIONS_SHOWN],
        "earlier": incarnations[INCARNATIONS_SHOWN:],
        "present": present,
    }


def _log(request: HttpRequest, row: Slot) -> dict[str, object]:
    kinds = list(dict.fromkeys(kind for kind in request.GET.getlist("kind") if kind))
    kinds = [clean_text(kind, 60, strip=False) for kind in kinds[:_KINDS_ASKED]]
    start = None
    if request.GET.get("from", ""):
        start = line_of(row, Params(request.GET).number("from") or 0)
        if start is None:
            raise Http404("the slot's log has no such line")
    page = read_log(row, kinds=kinds, start=start, limit=LOG_LINES)
    return {
        "lines": lines_of(page.lines, kinds),
        "kinds": kinds,
        "choices": choices_of(kinds),
        "start": start,
        "here": query_of(kinds, start.pk if start else None),
        "newest": query_of(kinds),
        "older": query_of(kinds, page.older.pk) if page.older else "",
    }


@page(POST, role=OPERATOR, of=OF_SLOT)
def change(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Write the choice; what cannot be is shown again with why, on the slot's page."""
    row = Slot.objects.filter(source__name=source_name, name=slot_name, temporary=False)
    slot = row.exclude(desired=Slot.Desired.REMOVING).select_related("source").first()
    if slot is None:
        raise Http404("there is no such slot whose budget can be changed")
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
    settings = read_failover_settings(view.source.pk for view in fleet.sources)
    waits = {pk: waits_for_none(facts) for pk, facts in settings.items()}
    page = {"fleet": fleet, "page": build_page(fleet, read_filter(request.GET, fleet), waits)}
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "slots/slots_now.html" if htmx else "slots/slots.html", page)
