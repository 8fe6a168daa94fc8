"""A transaction's page, and the drawers' view of it: its head and its changes, a page at a time."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from replview.features.archive.views import archived_transaction
from replview.features.transactions.page import PAGE_CHANGES, read_page, read_slot
from replview.store.models import Slot
from replview.store.read import history
from replview.store.read.changes.of_transaction import ChangeFilter, find_changes
from replview.store.read.coverage import coverage_of
from replview.store.read.deleted_days import deleted_day_of
from replview.store.read.history import TransactionRow
from replview.store.read.in_flight import transitions_of
from replview.store.retention.archived import place_of
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.changes.stages import life_of
from replview.ui.changes.transaction_sentence import NOT_UNDONE
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
        **_first_changes(row, slot, _after(request)),
    }
    return render(request, "live_page/_drawer.html", page)


@require_GET
def changes(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """The next changes of a transaction, for a drawer."""
    row = find_transaction(transaction_id)
    page = _first_changes(row, read_slot(row), _after(request))
    return render(request, "ui/changes/_list.html", page)


def changes_page(transaction_id: int) -> dict[str, Any]:
    """The first changes of a transaction, for another page's drawer."""
    row = find_transaction(transaction_id)
    return _first_changes(row, read_slot(row), 0)


def find_transaction(transaction_id: int) -> TransactionRow:
    """By our own number; half a baseline is nobody's business yet."""
    row = history.transaction_by_id(transaction_id) if transaction_id < 1 << 63 else None
    if row is None or row.state == "copying":
        raise Http404("there is no such transaction, or it was received anew")
    return row


def in_scope(request: HttpRequest, slot: Slot) -> None:
    """The header's scope is the transaction's slot, whatever the address says."""
    request.GET = request.GET.copy()  # type: ignore[assignment]
    request.GET["slot"] = str(slot)  # type: ignore[index]


def _after(request: HttpRequest) -> int:
    text = request.GET.get("after", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _first_changes(row: TransactionRow, slot: Slot, after: int) -> dict[str, Any]:
    # Kept by the slot's choice, they are shown, marked.
    kept = bool(row.aborted_changes) and slot.keep_aborted
    found = find_changes(row.id, ChangeFilter(with_aborted=kept), after=after, limit=PAGE_CHANGES)
    more_after = found.searched_to or (found.rows[-1].seq if found.more else None)
    return {
        "row": row,
        "slot": slot,
        "blocks": blocks_of(found.rows, not_undone=NOT_UNDONE.get(row.state, "")),
        "more_after": more_after,
        "page_changes": PAGE_CHANGES,
    }
