"""Changing what a slot may cost its source, from the slot's page."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from replview.features.slots import views as slot_page
from replview.features.slots.budget_form import budget_of, parse_form
from replview.store.models import Slot
from replview.store.slot_budgets import change_budget

_FIELDS = ("wal_budget", "protect", "heartbeat")


@require_POST
def change(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Write the choice; what cannot be is shown again with why, on the slot's page."""
    row = Slot.objects.filter(source__name=source_name, name=slot_name, temporary=False)
    slot = row.exclude(desired=Slot.Desired.REMOVING).select_related("source").first()
    if slot is None:
        raise Http404("there is no such slot whose budget can be changed")
    sent = {
        name: request.POST.get(name, "")[:40] for name in ("wal_budget", "protect", "heartbeat")
    }
    try:
        changed = parse_form(slot, sent)
    except ValueError as error:
        return _refused(request, slot, sent, str(error))
    change_budget(slot, changed, by=request.user.get_username())
    return redirect(reverse("slot", args=[source_name, slot_name]) + "#budget")


def _refused(request: HttpRequest, slot: Slot, sent: dict[str, str], why: str) -> HttpResponse:
    view = slot_page.find(request, slot.source.name, slot.name)
    if view is None:
        raise Http404("there is no such slot")
    budget = budget_of(slot, typed=sent, error=f"{why[:1].upper()}{why[1:]}.")
    return slot_page.show(request, view, budget=budget, status=422)
