"""A transaction filter as a sentence; and filters somebody saved: a page's address under a name,
for that person alone.

A page that has them passes ``saved_filters(request, "find")`` as ``saved`` and includes
``ui/browse/_saved.html``. What says where one is in a list (a cursor) is not saved.
"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from replview.access.page import POST, VIEWER, page
from replview.access.rights import account_of
from replview.store.models import SavedFilter
from replview.store.read.transactions.transaction_filter import (
    NO_ORIGIN,
    OPERATIONS,
    UNKNOWN_ACTOR,
    TransactionFilter,
)
from replview.text.formats import age_words, bytes_words, count_words
from replview.ui.params import Params

_DID = {
    "I": "inserted",
    "U": "updated",
    "D": "deleted",
    "T": "truncated",
    "M": "sent a message",
    "S": "read a baseline",
}
_NAMES_SHOWN = 3
#: Pages whose filters can be saved, by the names of their addresses.
PAGES = ("transactions", "find")
#: Where one is in a list.
_PLACE = ("cursor", "back", "at", "page", "after", "before", "csrfmiddlewaretoken")
_MOST = 100
_LONGEST_QUERY = 4000


def filter_text(wanted: TransactionFilter) -> str:
    """``by alice, that updated or deleted in orders, of at least 100 changes``; empty: all."""
    parts = []
    if wanted.id:
        parts.append(f"with xid or gid {wanted.id}")
    if wanted.states:
        parts.append(f"that are {_any_of(list(wanted.states))}")
    if wanted.actor:
        by_nobody = wanted.actor == UNKNOWN_ACTOR
        parts.append("of an unknown actor" if by_nobody else f"by {wanted.actor}")
    if wanted.origin:
        here = wanted.origin == NO_ORIGIN
        parts.append("written on the source" if here else f"from {wanted.origin}")
    parts += _did(wanted)
    parts += _sizes(wanted)
    parts += _stretch(wanted)
    if wanted.text:
        parts.append(f"that hold “{wanted.text}”")
    return ", ".join(parts)


def _did(wanted: TransactionFilter) -> list[str]:
    did = [_DID[one] for one in wanted.ops] if wanted.ops != OPERATIONS else []
    tables = [name.removeprefix("public.") for name in wanted.tables]
    if did:
        where = f" in {_any_of(tables)}" if tables else ""
        return [f"that {_any_of(did)}{where}"]
    return [f"that touched {_any_of(tables)}"] if tables else []


def _sizes(wanted: TransactionFilter) -> list[str]:
    sizes = (
        (wanted.min_changes, "of at least {} changes", count_words),
        (wanted.min_bytes, "of at least {}", bytes_words),
        (wanted.prepared_min, "prepared for at least {}", age_words),
    )
    return [frame.format(words(least)) for least, frame, words in sizes if least]


def _stretch(wanted: TransactionFilter) -> list[str]:
    parts = []
    for word, text in (("since", wanted.since), ("until", wanted.until)):
        if text:
            ago = "" if ":" in text or "-" in text else " ago"
            parts.append(f"{word} {text.replace('T', ' ') if not ago else text}{ago}")
    if wanted.from_lsn:
        parts.append(f"from {wanted.from_lsn}")
    if wanted.to_lsn:
        parts.append(f"to {wanted.to_lsn}")
    return parts


def _any_of(words: list[str]) -> str:
    shown = words[:_NAMES_SHOWN]
    if len(words) > _NAMES_SHOWN:
        shown.append(f"{len(words) - _NAMES_SHOWN} more")
    return " or ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def saved_filters(request: HttpRequest, page: str) -> dict[str, Any]:
    """The signed-in person's filters of a page, and ``query``: the one that is set now, as it
    would be saved; empty: there is nothing to save.
    """
    query = filter_query(request.GET)
    found = SavedFilter.objects.filter(user=account_of(request), page=page)[:_MOST]
    choices = [
        {"id": one.pk, "name": one.name, "url": f"{reverse(page)}?{one.query}",
         "current": one.query == query}
        for one in found
    ]  # fmt: skip
    return {"page": page, "query": query, "choices": choices}


def filter_query(words: QueryDict) -> str:
    """An address's parameters without the place in the list, in one order and spelling."""
    kept = QueryDict(mutable=True)
    for name in sorted(words):
        values = [value for value in words.getlist(name) if value]
        if name not in _PLACE and values:
            kept[name] = ",".join(values)
    return kept.urlencode(safe="/")[:_LONGEST_QUERY]


@page(POST, role=VIEWER, of={"page": None})
def save(request: HttpRequest, page: str) -> HttpResponse:
    """Save the filter under a name; one of that name is replaced. Then back to the page."""
    if page not in PAGES:
        raise Http404(f"filters of {page[:40]!r} cannot be saved")
    query = filter_query(QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY]))
    name = Params(request.POST).text("name", 100)
    mine = SavedFilter.objects.filter(user=account_of(request), page=page)
    room = mine.count() < _MOST or mine.filter(name=name).exists()
    if name and query and room:
        SavedFilter.objects.update_or_create(
            user=account_of(request), page=page, name=name, defaults={"query": query}
        )
    return redirect(f"{reverse(page)}?{query}")


@page(POST, role=VIEWER, of={"filter_id": None})
def delete(request: HttpRequest, filter_id: int) -> HttpResponse:
    """Forget one of one's own filters; the page stays as it was."""
    mine = get_object_or_404(SavedFilter, pk=filter_id, user=account_of(request))
    query = filter_query(QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY]))
    page = mine.page
    mine.delete()
    return redirect(f"{reverse(page)}?{query}")
