"""A transaction's page, and the drawers' view of it: its head and its changes, a page at a time."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from replview.features.archive.views import archived_transaction
from replview.features.transactions.page import read_page
from replview.store.models import Slot
from replview.store.read import history
from replview.store.read.coverage import coverage_of
from replview.store.read.deleted_days import deleted_day_of
from replview.store.read.in_flight import transitions_of
from replview.store.retention.archived import place_of
from replview.ui.changes.drawer import changes_page, find_transaction, read_slot
from replview.ui.changes.stages import life_of
from replview.ui.changes.transaction_words import tell
from replview.ui.shell import fleet_of


@require_GET
def transaction_page(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """One transaction: its life, who did it, what it touched, every change as a diff."""
    day = deleted_day_of(transaction_id)
    if day is not None and history.transaction_by_id(transaction_id) is None:
        place = place_of(transaction_id)
        if place is not None:
            return archived_transaction(request, place, request.path)
        return render(request, "404.html", {"deleted_day": day}, status=404)
    row = find_transaction(transaction_id)
    slot = read_slot(row, fleet_of(request))
    in_scope(request, slot)
    return render(request, "transactions/transaction.html", read_page(request, row, slot))


@require_GET
def coverage(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """What the record covers around a transaction: asked for by its page once that is shown."""
    slot = read_slot(find_transaction(transaction_id))
    return render(request, "transactions/_coverage.html", {"coverage": coverage_of(slot)})


@require_GET
def drawer(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """The live page's drawer."""
    row = find_transaction(transaction_id)
    slot = read_slot(row)
    in_scope(request, slot)
    names = history.relation_names({int(key) for key in row.relations})
    transitions = transitions_of([row.id]).get(row.id, ()) if row.streamed or row.gid else ()
    page = {
        "slot": slot,
        "life": life_of(row, transitions, timezone.now()),
        "told": tell(row, names),
        **changes_page(row, slot, _after(request)),
    }
    return render(request, "live_page/_drawer.html", page)


@require_GET
def changes(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """The next changes of a transaction, for a drawer."""
    row = find_transaction(transaction_id)
    page = changes_page(row, read_slot(row), _after(request))
    return render(request, "ui/changes/_list.html", page)


def in_scope(request: HttpRequest, slot: Slot) -> None:
    """The header's scope is the transaction's slot, whatever the address says."""
    request.GET = request.GET.copy()  # type: ignore[assignment]
    request.GET["slot"] = str(slot)  # type: ignore[index]


def _after(request: HttpRequest) -> int:
    text = request.GET.get("after", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
