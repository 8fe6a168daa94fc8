"""Baselines of a slot: how far they are, and the form that asks for one."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from replview.access.page import GET_POST, OF_SLOT, OPERATOR, VIEWER, page
from replview.features.baselines.text import RATES, BaselineForm, rows_of, sentence
from replview.jobs import baselines as store
from replview.store.models import Baseline, Slot
from replview.ui.params import Params, scope_to
from replview.ui.sentence import BASELINE_COST

#: Baselines listed, the newest first.
SHOWN = 100
#: Of a form that is sent; more tables are asked for by the command.
MOST_TABLES = 2000


@page(GET_POST, role=VIEWER, change=OPERATOR, nav="slots", of=OF_SLOT)
def baselines(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """The slot's baselines; POST asks for some, cancels one, or asks for one again."""
    slots = Slot.objects.select_related("source", "incarnation")
    slot = get_object_or_404(slots, source__name=source_name, name=slot_name)
    form = _form(slot, request.GET)
    # The header's scope is this slot.
    scope_to(request, slot)
    status = 200
    if request.method == "POST":
        if _do(request, slot, form):
            return HttpResponseRedirect(reverse("baselines", args=[source_name, slot_name]))
        status = 422
    rows = rows_of(_listed(slot))
    page = {
        "slot": slot,
        "rows": rows,
        "form": form,
        "cost": BASELINE_COST,
        "sentence": sentence(slot, rows),
        "moving": any(row.baseline.waits for row in rows),
        "refusal": _refusal(slot),
    }
    htmx = request.headers.get("HX-Request") == "true"
    template = "baselines/_now.html" if htmx else "baselines/baselines.html"
    return render(request, template, page, status=status)


def _listed(slot: Slot) -> list[Baseline]:
    """What is read or waits first, then the newest."""
    found = list(Baseline.objects.filter(slot=slot).order_by("-id")[:SHOWN])
    order = {Baseline.State.RUNNING: 0, Baseline.State.WAITING: 1}
    return sorted(found, key=lambda row: order.get(Baseline.State(row.state), 2))


def _form(slot: Slot, asked: QueryDict) -> BaselineForm:
    """What may be asked for; ``?table=public.orders`` chooses."""
    done = Baseline.objects.filter(
        slot=slot, incarnation=slot.incarnation, state=Baseline.State.DONE
    ).values_list("schema", "table")
    return BaselineForm(
        store.tables_of(slot),
        {f"{schema}.{table}" for schema, table in done},
        set(asked.getlist("table")[:MOST_TABLES]),
    )


def _refusal(slot: Slot) -> str:
    """Why none can be asked for; empty: it can."""
    if slot.plugin != "pgoutput":
        return (
            f"The slot speaks {slot.plugin}, and a baseline is read as pgoutput would send its rows"
        )
    if slot.desired == Slot.Desired.REMOVING:
        return "The slot is being removed"
    return ""


def _do(request: HttpRequest, slot: Slot, form: BaselineForm) -> bool:
    """What was asked for; False with ``form.error`` said."""
    sent = request.POST
    if (action := sent.get("action")) in ("cancel", "retry"):
        number = Params(sent).number("baseline")
        if number is not None:
            mine = Baseline.objects.filter(slot=slot, pk=number)
            for found in mine.select_related("slot__source"):
                if (store.rows.cancel if action == "cancel" else store.retry)(found.pk):
                    store.note_act(found, "cancelled" if action == "cancel" else "asked for again")
        return True
    form.error = _refusal(slot)
    if form.error:
        return False
    form.chosen = set(sent.getlist("table")[:MOST_TABLES])
    form.rate = next((rate for rate in RATES if str(rate) == sent.get("rate")), -1)
    chosen = [t for t in form.tables if f"{t['schema']}.{t['table']}" in form.chosen]
    if not chosen:
        form.error = "Choose at least one table"
        return False
    if form.rate < 0:
        form.error, form.rate = "Choose one of the rates", RATES[1]
        return False
    by, rate = request.user.get_username(), form.rate or None
    for table in chosen:
        store.request(slot, table["schema"], table["table"], by=by, rows_per_second=rate)
    return True
