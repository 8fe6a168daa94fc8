"""Views of the store's page: size, order of deletion, retention of each slot, and archive."""

import datetime as dt
from dataclasses import dataclass

from django.db.models import Min
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import capfirst

from replview.access.page import ADMIN, POST, READ_POST, VIEWER, Nav, page
from replview.access.visibility import reading_session
from replview.store import instance_settings
from replview.store.models import Slot
from replview.store.read.days import kept_since
from replview.store.retention import archive, archived
from replview.store.retention.archived import ask_now, choose_number, choose_target, switch_off
from replview.store.retention.forecast import Forecast, SlotForecast, forecast, slot_forecasts
from replview.store.retention.policy import all_alike
from replview.store.retention.size import StoreSize, measure, order_of_sacrifice
from replview.store.write.access_record import Action, note
from replview.targets.policy import Refused, read_policy, target_of, try_target
from replview.text.formats import bytes_words
from replview.text.sizes import limit_text, parse_limit
from replview.ui.archive_text import ArchiveForm, ArchiveView, archive_view
from replview.ui.retention_text import days_words, full_sentence, how_words, rate_of

#: Share of the budget from which on the level is ``look``, as for the alert.
_LOOK_FROM = 0.8
#: Days until the disk is full below which the level is ``look``.
_LOOK_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePage:
    """The page of the store."""

    store: StoreSize
    level: str
    title: str
    cause: str
    #: Things that are given up at the budget, in order.
    sacrifice: list[str]
    #: Each slot with the start of its record; None if nothing is recorded.
    kept: list[tuple[Slot, dt.datetime | None]]
    archive: ArchiveView
    forecast: Forecast
    #: The retention and the forecast of each slot.
    slots: list[SlotForecast]
    how: str
    typed: str
    #: The form of the archive's settings.
    form: ArchiveForm
    error: str = ""

    @property
    def growth(self) -> str:
        """Return the growth per day in words; empty when unknown."""
        growth = self.store.growth_bytes_per_day
        return "" if growth is None else f"{bytes_words(growth)} of changes a day"

    @property
    def full(self) -> str:
        """Return when the store is full, such as ``Its disk is full in 12 days at this rate.``."""
        return full_sentence(self.forecast)

    @property
    def rates(self) -> list[str]:
        """Return the growth over a week and over the last day in words; empty when unknown."""
        forecast = self.forecast
        rates = [rate for rate in dict.fromkeys((forecast.week, forecast.day)) if rate is not None]
        days_left = {rate: forecast.days_left(rate) for rate in rates}
        full = {
            rate: f": full in {days_words(days)}"
            for rate, days in days_left.items()
            if days is not None
        }
        return [rate_of(rate) + full.get(rate, "") for rate in rates]


def page_of(
    *, typed: str | None = None, error: str = "", form: ArchiveForm | None = None
) -> StorePage:
    """Build the page; ``typed``, ``form`` and ``error`` show refused input again."""
    store = measure()
    size = store.budget_bytes
    slots = Slot.objects.select_related("source").annotate(since=Min("incarnations__started_at"))
    begins, store_forecast = kept_since(reading_session()), forecast()
    forecasts = {slot_forecast.slot.pk: slot_forecast for slot_forecast in slot_forecasts()}
    return StorePage(
        forecast=store_forecast,
        slots=[forecasts[slot.pk] for slot in slots if slot.pk in forecasts],
        how=how_words(all_alike()),
        store=store,
        level=_level(store, store_forecast),
        title=f"The store occupies {bytes_words(store.size_bytes)}.",
        cause=_cause(store, store_forecast),
        sacrifice=order_of_sacrifice(size, store.protect),
        kept=[
            (slot, max(slot.since, begins.get(slot.pk) or slot.since) if slot.since else None)
            for slot in slots
        ],
        archive=archive_view(archive.chosen(), archived.standings()),
        typed=typed if typed is not None else limit_text(size),
        form=form or ArchiveForm.now(),
        error=error,
    )


def _level(store: StoreSize, forecast: Forecast) -> str:
    share, days = store.share or 0.0, forecast.disk_days
    if share >= 1 or (days is not None and days < 1):
        return "now"
    return "look" if share >= _LOOK_FROM or (days is not None and days < _LOOK_DAYS) else "ok"


def _cause(store: StoreSize, forecast: Forecast) -> str:
    rate_known = forecast.week is not None or forecast.day is not None
    full_words = (
        f" {full_sentence(forecast)}" if rate_known and forecast.room_bytes is not None else ""
    )
    if store.share is None or store.budget_bytes is None:
        return full_words.strip() or "It has no budget: it may grow until its disk is full."
    share = f"{100 * store.share:.0f} % of its budget of {bytes_words(store.budget_bytes)}"
    if store.share >= 1:
        return f"That is {share}. {store.stuck}".rstrip()
    if not full_words:
        return f"That is {share}; how long that lasts is unknown yet."
    return f"That is {share}.{full_words}"


@page(POST, role=ADMIN)
def choose(request: HttpRequest) -> HttpResponse:
    """Set the archive's target, after a test write to it, and its times."""
    form = ArchiveForm.of(request.POST)
    try:
        after_hours, every_seconds = form.numbers()
        target = target_of(form.target, read_policy(), anywhere=True)
        # Test only a new target: the current one may be unreachable for the moment.
        if target != archive.chosen().target:
            try_target(target)
    except ValueError as error:
        return _show_refusal(request, form, str(error))
    except Refused as refused:
        return _show_refusal(request, form, f"{refused.cause}. {refused.remedy}")
    by, shown = request.user.get_username(), ArchiveForm.now()
    # The form shows rounded values, so write only a value that differs from the shown one.
    if form.after_hours != shown.after_hours:
        choose_number("after_hours", after_hours, by)
    if form.every_hours != shown.every_hours:
        choose_number("every_seconds", every_seconds, by)
    choose_target(target, by)
    return _back_to_archive()


@page(POST, role=ADMIN)
def now(request: HttpRequest) -> HttpResponse:
    """Request that everything stored be archived as soon as a worker is free."""
    ask_now(request.user.get_username())
    return _back_to_archive()


@page(POST, role=ADMIN)
def off(request: HttpRequest) -> HttpResponse:
    """Switch the archive off."""
    switch_off(request.user.get_username())
    return _back_to_archive()


def _show_refusal(request: HttpRequest, form: ArchiveForm, reason: str) -> HttpResponse:
    form.error = f"{capfirst(reason.rstrip('.'))}."
    return render(request, "retention/store.html", {"page": page_of(form=form)}, status=422)


def _back_to_archive() -> HttpResponse:
    return redirect(f"{reverse('store')}#archive")


@page(READ_POST, role=VIEWER, change=ADMIN, nav=Nav(group="", label="Store", icon="record"))
def store(request: HttpRequest) -> HttpResponse:
    """Show the page; a POST sets the store's budget and what is protected when it is reached."""
    if request.method != "POST":
        return render(request, "retention/store.html", {"page": page_of()})
    budget = request.POST.get("budget", "").strip()[:40] or "none"
    protect = request.POST.get("protect", "")
    try:
        budget_bytes = parse_limit(budget)
        if protect not in Slot.Protect.values:
            raise ValueError("choose what to protect at the budget")
    except ValueError as error:
        reason = str(error)
        page = page_of(typed=budget, error=f"{capfirst(reason)}.")
        return render(request, "retention/store.html", {"page": page}, status=422)
    by = request.user.get_username()
    instance_settings.write("store.budget_bytes", budget_bytes, by)
    instance_settings.write("store.protect", protect, by)
    note(Action.CHANGED_SETTINGS, subject=f"the store's budget: {budget}, {protect}")
    return redirect("store")
