"""A saved filter is a page's query string under a name, visible to its user only.

A page with saved filters passes ``saved_filters(request, "find")`` as ``saved`` and includes
``ui/browse/_saved.html``. The position in a list (a cursor) is not saved.
"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from replview.access.page import POST, VIEWER, page
from replview.access.rights import account_of
from replview.store.models import SavedFilter
from replview.ui.params import Params

#: Pages whose filters can be saved, by the names of their addresses.
PAGES = ("transactions", "find")
#: Parameters for the position in a list.
_POSITION_PARAMETERS = ("cursor", "back", "at", "page", "after", "before", "csrfmiddlewaretoken")
_MOST_FILTERS = 100
_LONGEST_QUERY = 4000


def saved_filters(request: HttpRequest, page: str) -> dict[str, Any]:
    """Return the user's filters of a page, and ``query``, the current filter as it would be saved.

    ``query`` is empty where there is nothing to save.
    """
    query = filter_query(request.GET)
    filters = SavedFilter.objects.filter(user=account_of(request), page=page)[:_MOST_FILTERS]
    choices = [
        {"id": filter_.pk, "name": filter_.name, "url": f"{reverse(page)}?{filter_.query}",
         "current": filter_.query == query}
        for filter_ in filters
    ]  # fmt: skip
    return {"page": page, "query": query, "choices": choices}


def filter_query(words: QueryDict) -> str:
    """Return an address's parameters without the position, in a canonical order and spelling."""
    query = QueryDict(mutable=True)
    for name in sorted(words):
        values = [value for value in words.getlist(name) if value]
        if name not in _POSITION_PARAMETERS and values:
            query[name] = ",".join(values)
    return query.urlencode(safe="/")[:_LONGEST_QUERY]


@page(POST, role=VIEWER, of={"page": None})
def save(request: HttpRequest, page: str) -> HttpResponse:
    """Save or replace the filter of this name, and redirect to the page."""
    if page not in PAGES:
        raise Http404(f"filters of {page[:40]!r} cannot be saved")
    query = filter_query(QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY]))
    name = Params(request.POST).text("name", 100)
    filters = SavedFilter.objects.filter(user=account_of(request), page=page)
    room = filters.count() < _MOST_FILTERS or filters.filter(name=name).exists()
    if name and query and room:
        SavedFilter.objects.update_or_create(
            user=account_of(request), page=page, name=name, defaults={"query": query}
        )
    return redirect(f"{reverse(page)}?{query}")


@page(POST, role=VIEWER, of={"filter_id": None})
def delete(request: HttpRequest, filter_id: int) -> HttpResponse:
    """Delete one of the user's filters, and redirect to the page with the same filter."""
    filter_ = get_object_or_404(SavedFilter, pk=filter_id, user=account_of(request))
    query = filter_query(QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY]))
    page = filter_.page
    filter_.delete()
    return redirect(f"{reverse(page)}?{query}")
