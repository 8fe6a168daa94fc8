"""What is in flight: streaming, prepared, prepared elsewhere, and how the others ended."""

from datetime import UTC, datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from replview.access.page import ROWS, VIEWER, Nav, page
from replview.features.in_flight import queries as store
from replview.features.in_flight.drawer import Chosen, read_chosen
from replview.features.in_flight.filters import Filters
from replview.features.in_flight.page import (
    ENDED_PAGE,
    InFlight,
    Scope,
    ended_rows,
    read_in_flight,
    read_scope,
)
from replview.features.in_flight.text import sentence_of, work_mem_words
from replview.store.models import Transaction
from replview.ui.changes.drawer import changes_page, find_transaction, read_slot


@page(
    role=VIEWER,
    nav=Nav(group="Watch", label="In flight", icon="flight", count="open", tab=True),
    record=ROWS,
)
@require_GET
def in_flight(request: HttpRequest) -> HttpResponse:
    """The whole page, with the drawer of the transaction its address names."""
    filters = Filters.from_words(request.GET)
    scope = read_scope(filters)
    page = _page(read_in_flight(filters, scope))
    chosen = read_chosen(filters.chosen, scope)
    if chosen is not None:
        page |= _chosen(chosen)
    elif filters.chosen is not None:
        page["gone"] = True
    return render(request, "in_flight/in_flight.html", page)


@page(role=VIEWER, polled=True)
@require_GET
def now(request: HttpRequest) -> HttpResponse:
    """The parts that change; nothing (204) while ``seen`` is still how things are."""
    if request.GET.get("seen", "") == store.revision():
        return HttpResponse(status=204)
    filters = Filters.from_words(request.GET)
    scope = read_scope(filters)
    page = _page(read_in_flight(filters, scope))
    page["chosen"] = read_chosen(filters.chosen, scope)
    return render(request, "in_flight/now.html", page)


@page(role=VIEWER, of={"transaction_id": Transaction}, record=ROWS)
@require_GET
def drawer(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """The drawer's content."""
    scope = read_scope(Filters())
    chosen = read_chosen(transaction_id, scope)
    if chosen is None:
        raise Http404("there is no such transaction, or it was received anew")
    page = {"filters": Filters.from_words(request.GET), **_chosen(chosen)}
    return render(request, "in_flight/_drawer.html", page)


@page(role=VIEWER, nav="in-flight")
@require_GET
def ended(request: HttpRequest) -> HttpResponse:
    """All that have ended, a page at a time, the newest first."""
    filters = Filters.from_words(request.GET)
    scope = read_scope(filters)
    before = _before(request.GET.get("before", ""))
    wanted = filters.wanted(scope.incarnations, scope.now)
    rows = store.ended_rows(wanted, limit=ENDED_PAGE + 1, before=before)
    shown = rows[:ENDED_PAGE]
    page: dict[str, Any] = {
        "filters": filters,
        "ended": ended_rows(shown, scope),
        "first": before is None,
        "older": _cursor(shown[-1].stored_at, shown[-1].pk) if len(rows) > ENDED_PAGE else None,
        "page_rows": ENDED_PAGE,
    }
    return render(request, "in_flight/ended.html", page)


def _page(content: InFlight) -> dict[str, Any]:
    scope: Scope = content.scope
    return {
        "content": content,
        "filters": content.filters,
        "sentence": sentence_of(content),
        "work_mem": work_mem_words(scope),
        "looked_at": max(
            (look.looked_at for look in scope.looks.values() if look.looked_at), default=None
        ),
        "sources": _sources(content),
    }


def _sources(content: InFlight) -> list[dict[str, Any]]:
    """The menu of sources and their slots."""
    filters = content.filters
    found: dict[int, dict[str, Any]] = {}
    for slot in content.scope.all_slots:
        entry = found.setdefault(
            slot.source_id,
            {
                "name": slot.source.name,
                "url": filters.url(source=slot.source.name, slot="", rows="", tx=""),
                "current": filters.source == slot.source.name and not filters.slot,
                "slots": [],
            },
        )
        url = filters.url(source="", slot=str(slot), rows="", tx="")
        entry["slots"].append((slot.name, url, str(slot) == filters.slot))
    return list(found.values())


def _chosen(chosen: Chosen) -> dict[str, Any]:
    """The drawer of one, with its first changes."""
    row = find_transaction(chosen.transaction.pk)
    return {"chosen": chosen, **changes_page(row, read_slot(row))}


def _cursor(stored_at: datetime | None, identifier: int) -> str:
    assert stored_at is not None
    return f"{stored_at.timestamp() * 1e6:.0f}-{identifier}"


def _before(cursor: str) -> tuple[datetime, int] | None:
    """A place in the list of ended ones; what is not understood is its beginning."""
    at, _, identifier = cursor.partition("-")
    if not (at.isdigit() and identifier.isdigit() and len(at) < 18 and len(identifier) < 19):
        return None
    return datetime.fromtimestamp(int(at) // 1_000_000, UTC).replace(
        microsecond=int(at) % 1_000_000
    ), int(identifier)
