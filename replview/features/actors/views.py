"""Views of all actors of a slot's record, and of one actor."""

from datetime import UTC

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from replview.access.page import VIEWER, Nav, page
from replview.access.visibility import reading_session
from replview.features.actors.filters import wanted_of
from replview.features.actors.page import read_actor_page, read_actors_page
from replview.store.read.coverage import coverage_of
from replview.ui.params import Params
from replview.ui.shell import no_slot, slot_view_of


@page(role=VIEWER, nav=Nav(group="Browse", label="Actors", icon="actor", one_slot=True))
@require_GET
def actors(request: HttpRequest) -> HttpResponse:
    """List the actors of one slot."""
    view = slot_view_of(request)
    if view is None:
        return _no_slot(request)
    slot = view.slot
    today = timezone.now().astimezone(UTC).date()
    page = read_actors_page(slot, wanted_of(request.GET), today)
    context = {"page": page, "slot": slot, "coverage": coverage_of(reading_session(), slot)}
    return render(request, "actors/actors.html", context)


@page(role=VIEWER, nav="actors")
@require_GET
def actor(request: HttpRequest) -> HttpResponse:
    """Show one actor of one slot; an empty name stands for transactions that name nobody."""
    view = slot_view_of(request)
    if view is None:
        return _no_slot(request)
    slot = view.slot
    query = wanted_of(request.GET)
    if "actor" not in request.GET:
        return redirect(query.url(slot))
    name = Params(request.GET).text("actor", 300, strip=False)
    today = timezone.now().astimezone(UTC).date()
    coverage = coverage_of(reading_session(), slot)
    since = coverage.recorded_since.astimezone(UTC).date() if coverage.recorded_since else None
    page = read_actor_page(slot, name, query, today, since)
    return render(request, "actors/actor.html", {"page": page, "slot": slot, "coverage": coverage})


def _no_slot(request: HttpRequest) -> HttpResponse:
    cause = "Actors are listed by slot. The command shows every statement before running it."
    return no_slot(request, "Actors", "No actors yet.", cause, run="replview slot add SOURCE SLOT")
