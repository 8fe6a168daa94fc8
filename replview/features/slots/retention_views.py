"""View of a slot's retention, which shows what a change would delete before it is made."""

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import capfirst

from replview.access.page import ADMIN, OF_SLOT, READ_POST, VIEWER, page
from replview.features.slots import views as slot_page
from replview.store.models import Slot
from replview.store.retention.forecast import RetentionLoss, SlotForecast, loss_of, of_slot
from replview.store.retention.policy import DayContents, Keeping, all_alike, change_keeping, days_of
from replview.store.write.access_record import Action, note
from replview.text.sizes import limit_text
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
    #: Values of the form's fields: age and size.
    typed_for: str
    typed_most: str
    #: Error message of the form; empty if there is none.
    error: str


def keeping_page(
    slot: Slot,
    requested: Keeping | None,
    loss: RetentionLoss | None,
    *,
    typed: tuple[str, str],
    error: str = "",
) -> KeepingPage:
    """Build the page; ``typed`` holds the form's two fields, age and size."""
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
        typed_for=typed[0],
        typed_most=typed[1],
        error=error,
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
    typed_for = params.get("keep_for", retention_text.days_typed(current.for_days))[:40]
    typed_most = params.get("keep_at_most", limit_text(current.at_most_bytes))[:40]
    requested: Keeping | None = None
    error = ""
    if "keep_for" in params or "keep_at_most" in params:
        try:
            requested = retention_text.parse_keeping(typed_for, typed_most)
        except ValueError as problem:
            error = f"{capfirst(str(problem))}."
    loss = loss_of(slot, requested) if requested is not None and requested != current else None
    if request.method == "POST" and requested is not None:
        unconfirmed = loss is not None and loss.is_to_be_confirmed
        if unconfirmed and params.get("typed", "").strip() != slot.name:
            error = f"Type {slot.name} to confirm the deletion."
        else:
            return _change_retention(request, slot, requested)
    page = keeping_page(slot, requested, loss, typed=(typed_for, typed_most), error=error)
    return render(request, "slots/retention.html", {"page": page}, status=422 if error else 200)


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
