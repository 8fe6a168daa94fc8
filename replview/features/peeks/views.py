"""Views that list the slots of a source's server, and peek into idle ones without moving them."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from replview.access.page import OF_SLOT, OF_SOURCE, OPERATOR, ROWS, VIEWER, page
from replview.features.peeks.form import read_form
from replview.features.peeks.page import (
    failed_page,
    peek_form_page,
    progress_page,
    result_page,
    server_slots_page,
)
from replview.jobs import peeks
from replview.store.models import SlotPeek, Source
from replview.store.write.access_record import Action, note


@page(role=VIEWER, nav="sources", of=OF_SOURCE)
@require_GET
def source_slots(request: HttpRequest, source_name: str) -> HttpResponse:
    """Show every slot of the source's server, largest retained WAL first."""
    source = get_object_or_404(Source, name=source_name)
    return render(request, "peeks/slots.html", {"page": server_slots_page(source)})


@page(role=OPERATOR, nav="sources", of=OF_SLOT)
@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Show the cost of a peek into the slot and the form; on POST request the peek."""
    source = get_object_or_404(Source, name=source_name)
    page = peek_form_page(source, slot_name)
    if page.form is None:
        return render(request, "peeks/ask.html", {"page": page}, status=404 if page.place else 200)
    # The link *look again* carries the bounds of the former peek.
    page.form.keep_bounds(request.GET)
    status = 200
    if request.method == "POST" and not page.refusal:
        answers = read_form(page.form, request.POST)
        if answers is not None:
            by = request.user.get_username()
            requested = peeks.request(source, slot_name, by=by, **answers)
            note(Action.VIEWED_ROWS, subject=f"changes waiting in {slot_name}", source_id=source.pk)
            return redirect("peek", peek_id=requested.pk)
        status = 422
    return render(request, "peeks/ask.html", {"page": page}, status=status)


@page(role=OPERATOR, nav="sources", of={"peek_id": SlotPeek}, record=ROWS)
@require_GET
def peek(request: HttpRequest, peek_id: int) -> HttpResponse:
    """Show the progress of a peek, then its result, at the same address."""
    row = get_object_or_404(SlotPeek.objects.select_related("source"), pk=peek_id)
    htmx = request.headers.get("HX-Request") == "true"
    if row.waits:
        template = "peeks/progress.html" if htmx else "peeks/waiting.html"
        return render(request, template, {"page": progress_page(row)})
    if htmx:
        return HttpResponse(headers={"HX-Refresh": "true"})
    if row.state == SlotPeek.State.FAILED:
        return render(request, "peeks/failed.html", {"page": failed_page(row)})
    return render(request, "peeks/found.html", {"page": result_page(row)})
