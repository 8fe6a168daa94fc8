"""Filters somebody saved: a page's address under a name, for that person alone.

A page that has them passes ``saved_filters(request, "find")`` as ``saved`` and includes
``browse/_saved.html``. What says where one is in a list (a cursor) is not saved.
"""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from replview.access.page import VIEWER, page
from replview.store.models import SavedFilter
from replview.ui.params import Params

#: Pages whose filters can be saved, by the names of their addresses.
PAGES = ("transactions", "find")
#: Where one is in a list.
_PLACE = ("cursor", "back", "at", "page", "after", "before", "csrfmiddlewaretoken")
_MOST = 100
_LONGEST_QUERY = 4000


@dataclass(frozen=True, slots=True)
class Choice:
    """A saved filter in the menu."""

    id: int
    name: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class Saved:
    """What the menu shows."""

    page: str
    #: The present filter, as it would be saved; empty: there is nothing to save.
    query: str
    choices: list[Choice]


def saved_filters(request: HttpRequest, page: str) -> Saved:
    """The signed-in person's filters of a page, and the one that is set now."""
    query = filter_query(request.GET)
    found = SavedFilter.objects.filter(user=_user(request), page=page)[:_MOST]
    choices = [
        Choice(one.pk, one.name, f"{reverse(page)}?{one.query}", one.query == query)
        for one in found
    ]
    return Saved(page, query, choices)


def filter_query(words: QueryDict) -> str:
    """An address's parameters without the place in the list, in one order and spelling."""
    kept = QueryDict(mutable=True)
    for name in sorted(words):
        values = [value for value in words.getlist(name) if value]
        if name not in _PLACE and values:
            kept[name] = ",".join(values)
    return kept.urlencode(safe="/")[:_LONGEST_QUERY]


@page(role=VIEWER, of={"page": None})
@require_POST
def save(request: HttpRequest, page: str) -> HttpResponse:
    """Save the filter under a name; one of that name is replaced. Then back to the page."""
    if page not in PAGES:
        raise Http404(f"filters of {page[:40]!r} cannot be saved")
    query = filter_query(QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY]))
    name = Params(request.POST).text("name", 100)
    mine = SavedFilter.objects.filter(user=_user(request), page=page)
    room = mine.count() < _MOST or mine.filter(name=name).exists()
    if name and query and room:
        SavedFilter.objects.update_or_create(
            user=_user(request), page=page, name=name, defaults={"query": query}
        )
    return redirect(f"{reverse(page)}?{query}")


@page(role=VIEWER, of={"filter_id": None})
@require_POST
def delete(request: HttpRequest, filter_id: int) -> HttpResponse:
    """Forget one of one's own filters; the page stays as it was."""
    mine = get_object_or_404(SavedFilter, pk=filter_id, user=_user(request))
    query = filter_query(QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY]))
    page = mine.page
    mine.delete()
    return redirect(f"{reverse(page)}?{query}")


def _user(request: HttpRequest) -> User:
    user = request.user
    assert isinstance(user, User), "every page is for people who have signed in"
    return user
