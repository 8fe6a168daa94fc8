"""The transactions page, and the jump to a transaction by LSN, xid, gid or moment."""

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from replview.access.page import VIEWER, Action, Nav, page
from replview.access.visibility import reading_session
from replview.features.transactions.list_page import STATES, find_transaction, list_url, read_page
from replview.store.read.coverage import coverage_of
from replview.store.read.days import last_deleted_day
from replview.store.read.transactions.transaction_filter import read_time
from replview.store.write.access_record import searched_transactions
from replview.ui.filters import saved_filters
from replview.ui.params import Params, scope_to
from replview.ui.shell import fleet_of


@page(
    role=VIEWER,
    nav=Nav(group="Browse", label="Transactions", icon="transactions", one_slot=True, tab=True),
    record=(Action.SEARCHED,),
)
@require_GET
def transactions(request: HttpRequest) -> HttpResponse:
    """One page of the list. Every view of it is a link."""
    views = list(fleet_of(request).slots)
    if not views:
        return render(request, "transactions/no_slot.html")
    name = request.GET.get("slot", "")
    slot = next((view.slot for view in views if str(view.slot) == name), None)
    if slot is None and name:
        raise Http404(f"there is no slot {name!r}")
    if slot is None and len(views) == 1:
        slot = views[0].slot
        # The header's scope is the slot that is shown, chosen or not.
        scope_to(request, slot)
    page = read_page(request.GET, slot, several=slot is None)
    searched_transactions(page.wanted, None if slot is None else slot.source_id)
    slots = [("", list_url(page.wanted, slot=""))] if len(views) > 1 else []
    slots += [
        (str(view.slot), list_url(page.wanted, slot=str(view.slot)))
        for view in sorted(views, key=lambda view: str(view.slot))
    ]
    content = {
        "page": page,
        "wanted": page.wanted,
        "slot": slot,
        "slots": slots if len(views) > 1 else [],
        "states": STATES,
        "saved": saved_filters(request, "transactions"),
        "download_query": urlencode(page.wanted.words() | {"slot": str(slot or "")}, safe="/,"),
        # What the record vouches for is told where it is asked for: where nothing was found.
        "coverage": coverage_of(reading_session(), slot)
        if slot is not None and not page.lines
        else None,
        "deleted_until": None if page.lines else last_deleted_day(reading_session()),
    }
    return render(request, "transactions/transactions.html", content)


@page(role=VIEWER)
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """To the transaction, or to the list at that moment; where there is none, a page that says
    what was looked for.
    """
    text = Params(request.GET).text("q")
    if not text:
        return redirect("overview")
    found = find_transaction(text)
    if found is not None:
        return redirect("transaction", transaction_id=found.pk)
    if not text.isdigit() and read_time(text) is not None:
        words = {"slot": request.GET.get("slot", ""), "at": text}
        query = urlencode({name: word for name, word in words.items() if word}, safe="/:")
        return redirect(f"{reverse('transactions')}?{query}")
    return render(request, "transactions/search/nothing.html", {"text": text}, status=404)
