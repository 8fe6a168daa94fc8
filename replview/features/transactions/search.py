"""The header's search, which leads to a transaction, to the list, or to a choice."""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from replview.access.page import GET, VIEWER, page
from replview.access.visibility import reading_session
from replview.store.models import Transaction
from replview.store.read.history_places import first_seqs_from_lsn, incarnation_places
from replview.store.read.transactions.filter_values import read_lsn, read_time
from replview.text.parsing import whole_number
from replview.ui.params import Params

_HIDDEN_STATES = (Transaction.State.DISCARDED, Transaction.State.COPYING)
#: Most transactions that are offered when an xid, a gid or an LSN matches several.
MOST_MATCHES = 20


def matching_transactions(text: str, slot: str = "") -> list[Transaction]:
    """Return the transactions with that gid or xid, newest first, or those at that LSN.

    An LSN matches in each slot the first commit at or after it; exact matches come first. ``slot``
    (``source/name``) limits the search; empty searches all slots.
    """
    shown = Transaction.objects.exclude(state__in=_HIDDEN_STATES)
    shown = shown.select_related("incarnation__slot__source")
    if slot:
        places = incarnation_places(reading_session(), slot)
        shown = shown.filter(incarnation__in=[place.id for place in places])
    newest = shown.order_by("-id")
    xid = whole_number(text, digits=10)
    transactions = list(newest.filter(gid=text)[:MOST_MATCHES])
    if not transactions and xid is not None:
        transactions = list(newest.filter(xid=xid)[:MOST_MATCHES])
    return transactions or _transactions_at_lsn(text, slot, newest)


def _transactions_at_lsn(
    text: str, slot: str, candidates: QuerySet[Transaction]
) -> list[Transaction]:
    """Return for each slot the first commit at or after the LSN, in its newest incarnation."""
    lsn = read_lsn(text)
    if lsn is None:
        return []
    first_seqs = first_seqs_from_lsn(reading_session(), slot, lsn)
    conditions = [
        Q(incarnation=incarnation, commit_seq=seq) for incarnation, seq in first_seqs.items()
    ]
    rows = candidates.filter(reduce(or_, conditions)) if conditions else []
    newest_by_slot = {
        row.incarnation.slot_id: row for row in sorted(rows, key=lambda match: match.incarnation_id)
    }
    return sorted(newest_by_slot.values(), key=lambda row: lsn not in (row.commit_lsn, row.end_lsn))


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The transactions that match a search."""

    text: str
    found: list[Transaction]

    @property
    def is_cut(self) -> bool:
        """Return whether there may be more matches."""
        return len(self.found) == MOST_MATCHES


@page(GET, role=VIEWER)
def search(request: HttpRequest) -> HttpResponse:
    """Redirect to the only match, or to the list at a time; else show all matches, or none.

    Matches in the selected slot come first; other slots are searched if it has none.
    """
    text = Params(request.GET).text("q")
    if not text:
        return redirect("overview")
    slot = request.GET.get("slot", "")
    transactions = matching_transactions(text, slot) or (
        matching_transactions(text) if slot else []
    )
    if len(transactions) == 1:
        return redirect("transaction", transaction_id=transactions[0].pk)
    if transactions:
        matches = Matches(text=text, found=transactions)
        return render(request, "transactions/search/several.html", {"page": matches})
    if not text.isdigit() and read_time(text) is not None:
        query = urlencode({**({"slot": slot} if slot else {}), "at": text}, safe="/:")
        return redirect(f"{reverse('transactions')}?{query}")
    return render(
        request,
        "transactions/search/nothing.html",
        {"page": Matches(text=text, found=[])},
        status=404,
    )
