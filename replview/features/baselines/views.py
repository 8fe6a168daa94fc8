"""The view of a slot's baselines, with the form that requests one."""

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from replview.access.page import GET_POST, OF_SLOT, OPERATOR, VIEWER, page
from replview.access.visibility import current_visibility
from replview.features.baselines.page import MOST_TABLES, build_form, build_page, refusal_of
from replview.features.baselines.text import RATES, BaselineForm
from replview.jobs import baselines as store
from replview.store.models import Baseline, Slot
from replview.text.formats import some_of
from replview.text.parsing import is_chosen
from replview.ui.params import Params, scope_to


@page(GET_POST, role=VIEWER, change=OPERATOR, nav="slots", of=OF_SLOT)
def baselines(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Show the slot's baselines; POST requests some, cancels one, or requests one again."""
    slots = Slot.objects.select_related("source", "incarnation")
    slot = get_object_or_404(slots, source__name=source_name, name=slot_name)
    form = build_form(slot, request.GET)
    # Make this slot the scope of the page's header.
    scope_to(request, slot)
    status = 200
    if request.method == "POST":
        if _request_baselines(request, slot, form):
            return HttpResponseRedirect(reverse("baselines", args=[source_name, slot_name]))
        status = 422
    htmx = request.headers.get("HX-Request") == "true"
    template = "baselines/_now.html" if htmx else "baselines/baselines.html"
    return render(request, template, {"page": build_page(slot, form)}, status=status)


def _request_baselines(request: HttpRequest, slot: Slot, form: BaselineForm) -> bool:
    """Carry out the request; return False with ``form.error`` if it is refused."""
    data = request.POST
    if (action := data.get("action")) in ("cancel", "retry"):
        return _end_or_retry(slot, form, action, Params(data).number("baseline"))
    form.error = refusal_of(slot)
    if form.error:
        return False
    form.chosen = set(data.getlist("table")[:MOST_TABLES])
    form.rate = next((rate for rate in RATES if str(rate) == data.get("rate")), -1)
    chosen = [t for t in form.tables if is_chosen(form.chosen, t["schema"], t["table"])]
    if not chosen:
        form.error = "Choose at least one table"
        return False
    if form.rate < 0:
        form.error, form.rate = "Choose one of the rates", RATES[1]
        return False
    form.error = _withheld_text(slot, [(table["schema"], table["table"]) for table in chosen])
    if form.error:
        return False
    by, rate = request.user.get_username(), form.rate or None
    for table in chosen:
        store.request(slot, table["schema"], table["table"], by=by, rows_per_second=rate)
    return True


def _end_or_retry(slot: Slot, form: BaselineForm, action: str, baseline_id: int | None) -> bool:
    """Cancel a baseline, or request it again; return False after setting ``form.error``."""
    for baseline in Baseline.objects.filter(slot=slot, pk=baseline_id or 0).select_related(
        "slot__source"
    ):
        form.error = _withheld_text(slot, [(baseline.schema, baseline.table)])
        if form.error:
            return False
        if (store.rows.cancel if action == "cancel" else store.retry)(baseline.pk):
            store.note_act(baseline, "cancelled" if action == "cancel" else "asked for again")
    return True


def _withheld_text(slot: Slot, names: Iterable[tuple[str, str]]) -> str:
    """Return why the account may not use these tables; empty: it may."""
    visibility = current_visibility()
    hidden = [".".join(name) for name in names if visibility.hides_table(slot.source_id, *name)]
    return f"You have no right on {some_of(hidden)}" if hidden else ""
