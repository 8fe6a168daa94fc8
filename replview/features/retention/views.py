"""The store's own size: what it consists of, how fast it grows, what gives way first."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from replview.access.page import ADMIN, VIEWER, Nav, page
from replview.catalog.state.wal_budget import parse_size, size_words
from replview.features.retention.page import page_of
from replview.store import instance_settings
from replview.store.models import Slot
from replview.store.write.access_record import Action, note


@page(role=VIEWER, change=ADMIN, nav=Nav(group="", label="Store", icon="record"))
@require_http_methods(["GET", "HEAD", "POST"])
def store(request: HttpRequest) -> HttpResponse:
    """The page; a POST chooses the budget and what comes first at it."""
    if request.method != "POST":
        return render(request, "retention/store.html", {"page": page_of()})
    budget = request.POST.get("budget", "").strip()[:40]
    protect = request.POST.get("protect", "")
    try:
        size = _size(budget)
        if protect not in Slot.Protect.values:
            raise ValueError("choose what comes first at the budget")
    except ValueError as error:
        why = str(error)
        page = page_of(typed=budget, error=f"{why[:1].upper()}{why[1:]}.")
        return render(request, "retention/store.html", {"page": page}, status=422)
    by = request.user.get_username()
    # As shown, which was rounded: not touched.
    chosen = instance_settings.read("store.budget_bytes", None)
    if not isinstance(chosen, int) or budget != size_words(chosen):
        instance_settings.write("store.budget_bytes", size, by)
    instance_settings.write("store.protect", protect, by)
    note(Action.CHANGED_SETTINGS, subject=f"the store's budget: {budget or 'none'}, {protect}")
    return redirect("store")


def _size(text: str) -> int | None:
    if text.lower() in ("", "none"):
        return None
    size = parse_size(text)
    if not 0 < size < 1 << 62:
        raise ValueError("a budget is more than nothing; none: no budget")
    return size
