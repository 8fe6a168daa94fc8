"""The live page, and a transaction's changes in its drawer or on a plain page of its own."""

from typing import Any

from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from replview.catalog.test_message import statement
from replview.store import history
from replview.store.history import TransactionRow
from replview.store.in_flight import transitions_of
from replview.store.models import Relation, Slot, SlotIncarnation
from replview.web.change_blocks import blocks_of
from replview.web.life import life_of
from replview.web.transaction_words import tell

#: Changes shown at once; more with "load more".
PAGE_CHANGES = 50
_TABLES_OFFERED = 200


@require_GET
def live_page(request: HttpRequest) -> HttpResponse:
    """Transactions as they commit. The rows come over the socket; this is all around them."""
    wanted = request.GET.get("slot", "")
    slot = _slot(wanted)
    if slot is None and wanted:
        raise Http404(f"there is no slot {wanted!r}")
    if slot is None:
        return render(request, "live/no_slot.html")
    # The header's scope is the slot that is shown, chosen or not.
    if not wanted:
        request.GET = request.GET.copy()  # type: ignore[assignment]
        request.GET["slot"] = str(slot)  # type: ignore[index]
    tables = Relation.objects.filter(slot=slot).order_by("schema", "table")
    names = list(dict.fromkeys(f"{t.schema}.{t.table}" for t in tables[:_TABLES_OFFERED]))
    page = {
        "slot": slot,
        "tables": names,
        "operations": [
            ("I", "inserts"),
            ("U", "updates"),
            ("D", "deletes"),
            ("T", "truncates"),
            ("M", "messages"),
        ],
        "states": ["streaming", "prepared", "committed", "message", "aborted", "rolled back"],
        "test_statement": statement(request.user.get_username()),
    }
    return render(request, "live/live.html", page)


@require_GET
def transaction_page(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """One transaction on a page of its own, in the drawer's words."""
    return render(request, "live/transaction.html", _transaction(request, transaction_id))


@require_GET
def drawer(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """The drawer's content."""
    return render(request, "live/_drawer.html", _transaction(request, transaction_id))


@require_GET
def changes(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """The next changes of a transaction."""
    row = _find(transaction_id)
    return render(request, "live/_changes.html", _page_of_changes(row, _after(request)))


@require_GET
def value(request: HttpRequest, transaction_id: int, seq: int) -> HttpResponse:
    """One value whole, as plain text."""
    side, column = request.GET.get("side", ""), request.GET.get("column", "")
    text = history.value_of(transaction_id, seq, side, column)
    if text is None:
        raise Http404("no such value")
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    # Whatever it is, no browser shall take it for a page.
    answer["Content-Disposition"] = 'inline; filename="value.txt"'
    return answer


def _slot(name: str) -> Slot | None:
    """The slot ``source/name``; without a name the one that was read last."""
    slots = Slot.objects.select_related("source", "incarnation")
    source, _, slot = name.rpartition("/")
    if name:
        return slots.filter(source__name=source, name=slot).first()
    return slots.order_by(F("heartbeat_at").desc(nulls_last=True), "id").first()


def _find(transaction_id: int) -> TransactionRow:
    row = history.transaction_by_id(transaction_id)
    if row is None:
        raise Http404("there is no such transaction, or it was received anew")
    return row


def _after(request: HttpRequest) -> int:
    text = request.GET.get("after", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _transaction(request: HttpRequest, transaction_id: int) -> dict[str, Any]:
    row = _find(transaction_id)
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    if "slot" not in request.GET:
        request.GET = request.GET.copy()  # type: ignore[assignment]
        request.GET["slot"] = str(incarnation.slot)  # type: ignore[index]
    names = history.relation_names({int(key) for key in row.relations})
    transitions = transitions_of([row.id]).get(row.id, ()) if row.streamed or row.gid else ()
    return {
        "slot": incarnation.slot,
        "life": life_of(row, transitions, timezone.now()),
        "told": tell(row, names),
        **_page_of_changes(row, _after(request)),
    }


def changes_page(transaction_id: int) -> dict[str, Any]:
    """The first changes of a transaction, for another page's drawer."""
    return _page_of_changes(_find(transaction_id), 0)


def _page_of_changes(row: TransactionRow, after: int) -> dict[str, Any]:
    # Kept by the slot's choice, they are shown, marked.
    kept = (
        bool(row.aborted_changes)
        and SlotIncarnation.objects.filter(pk=row.incarnation_id, slot__keep_aborted=True).exists()
    )
    found = history.changes_of(row.id, after, PAGE_CHANGES + 1, with_aborted=kept)
    shown = found[:PAGE_CHANGES]
    return {
        "row": row,
        "blocks": blocks_of(shown),
        "more_after": shown[-1].seq if len(found) > PAGE_CHANGES else None,
        "page_changes": PAGE_CHANGES,
    }
