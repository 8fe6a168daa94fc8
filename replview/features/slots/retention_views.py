"""View of a slot's retention, which shows what a change would delete before it is made."""

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import capfirst

from replview.access.page import ADMIN, OF_SLOT, READ_POST, VIEWER, page
from replview.features.slots import views as slot_page
from replview.features.slots.keeping_form import KeepingForm
from replview.store.models import Slot
from replview.store.retention.forecast import RetentionLoss, SlotForecast, loss_of, of_slot
from replview.store.retention.policy import DayContents, Keeping, all_alike, change_keeping, days_of
from replview.store.write.access_record import Action, note
from replview.ui import retention_text

_DAYS_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingPage:
    """The page of a slot's retention, and of what a change would delete."""

    slot: Slot
    forecast: SlotForecast
    #: Sums by day, newest first; at most 60.
    days: list[DayContents]
    title: str
    cause: str
    #: Loss by the requested change; None without a change.
    loss: RetentionLoss | None
    #: The requested retention in words; empty without ``loss``.
    asked_words: str
    #: The loss in a sentence; empty without ``loss``.
    lost: str
    notes: list[str]
    #: Sentence about how days are deleted.
    how: str
    form: KeepingForm


def keeping_page(
    slot: Slot, requested: Keeping | None, loss: RetentionLoss | None, form: KeepingForm
) -> KeepingPage:
    """Build the page of a slot, with a requested change if there is one."""
    forecast = of_slot(slot)
    words = retention_text.slot_forecast_words(forecast)
    has_words = capfirst(retention_text.has_words(forecast))
    return KeepingPage(
        slot=slot,
        forecast=forecast,
        days=days_of(slot.pk)[::-1][:_DAYS_SHOWN],
        title=f"{slot.name} keeps its record {retention_text.keeping_words(Keeping.of(slot))}.",
        cause=f"{has_words}, {words}." if words.startswith("its") else f"{has_words} and {words}.",
        loss=loss,
        asked_words=retention_text.keeping_words(requested) if requested and loss else "",
        lost="" if loss is None else retention_text.loss_sentence(loss),
        notes=[] if loss is None else retention_text.loss_notes(loss),
        how=retention_text.how_words(all_alike()),
        form=form,
    )


@page(READ_POST, role=VIEWER, change=ADMIN, nav="slots", of=OF_SLOT)
def keeping(request: HttpRequest, source_name: str, slot_name: str) -> HttpResponse:
    """Show the retention, and what a change would delete; a POST makes the change."""
    slot_page.find(request, source_name, slot_name)
    candidates = Slot.objects.filter(source__name=source_name, name=slot_name, temporary=False)
    slot = candidates.exclude(desired=Slot.Desired.REMOVING).select_related("source").first()
    if slot is None:
        raise Http404("there is no such slot")
    params = request.POST if request.method == "POST" else request.GET
    current = Keeping.of(slot)
    form = KeepingForm(current, params)
    requested = form.keeping() if form.is_valid() else None
    loss = loss_of(slot, requested) if requested is not None and requested != current else None
    if request.method == "POST" and requested is not None:
        unconfirmed = loss is not None and loss.is_to_be_confirmed
        if unconfirmed and form.cleaned_data["typed"] != slot.name:
            form.add_error("typed", f"Type {slot.name} to confirm the deletion.")
        else:
            return _change_retention(request, slot, requested)
    page = keeping_page(slot, requested, loss, form)
    status = 422 if form.errors else 200
    return render(request, "slots/retention.html", {"page": page}, status=status)


def _change_retention(request: HttpRequest, slot: Slot, requested: Keeping) -> HttpResponse:
    """Change the retention if it differs, and redirect to the page."""
    if Keeping.of(slot) != requested:
        change_keeping(slot, requested, by=request.user.get_username())
        note(
            Action.CHANGED_SETTINGS,
            subject=f"what {slot} keeps: {retention_text.keeping_words(requested)}",
            source_id=slot.source_id,
        )
    return redirect(reverse("slot-keeping", args=[slot.source.name, slot.name]))
