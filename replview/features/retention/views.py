"""Views of the store's page: size, order of deletion, retention of each slot, and archive."""

import datetime as dt
from dataclasses import dataclass

from django.db.models import Min
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from replview.access.page import ADMIN, POST, READ_POST, VIEWER, Nav, page
from replview.access.visibility import reading_session
from replview.features.retention.forms import ArchiveForm, StoreBudgetForm
from replview.store import instance_settings
from replview.store.models import Slot
from replview.store.read.days import kept_since
from replview.store.retention import archive, archived
from replview.store.retention.archived import ask_now, choose_number, choose_target, switch_off
from replview.store.retention.forecast import Forecast, SlotForecast, forecast, slot_forecasts
from replview.store.retention.policy import all_alike
from replview.store.retention.size import StoreSize, measure, order_of_sacrifice
from replview.store.write.access_record import Action, note
from replview.text.formats import bytes_words
from replview.ui.archive_text import ArchiveView, archive_view
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
    budget_form: StoreBudgetForm
    archive_form: ArchiveForm

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


def page_of(refused: StoreBudgetForm | ArchiveForm | None = None) -> StorePage:
    """Build the page; ``refused`` is a form that was refused."""
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
        budget_form=refused if isinstance(refused, StoreBudgetForm) else StoreBudgetForm(),
        archive_form=refused if isinstance(refused, ArchiveForm) else ArchiveForm(),
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
    form = ArchiveForm(request.POST)
    if not form.is_valid():
        return _show(request, form)
    by, data = request.user.get_username(), form.cleaned_data
    # The form shows rounded values, so write only a value that differs from the shown one.
    if "after_hours" in form.changed_data:
        choose_number("after_hours", data["after_hours"], by)
    if "every_hours" in form.changed_data:
        choose_number("every_seconds", data["every_hours"] * 3600, by)
    choose_target(data["target"], by)
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


def _show(
    request: HttpRequest, refused: StoreBudgetForm | ArchiveForm | None = None
) -> HttpResponse:
    status = 422 if refused else 200
    return render(request, "retention/store.html", {"page": page_of(refused)}, status=status)


def _back_to_archive() -> HttpResponse:
    return redirect(f"{reverse('store')}#archive")


@page(READ_POST, role=VIEWER, change=ADMIN, nav=Nav(group="", label="Store", icon="record"))
def store(request: HttpRequest) -> HttpResponse:
    """Show the page; a POST sets the store's budget and what is protected when it is reached."""
    if request.method != "POST":
        return _show(request)
    form = StoreBudgetForm(request.POST)
    if not form.is_valid():
        return _show(request, form)
    by, protect = request.user.get_username(), form.cleaned_data["protect"]
    budget = form["budget"].value()
    instance_settings.write("store.budget_bytes", form.cleaned_data["budget"], by)
    instance_settings.write("store.protect", protect, by)
    note(Action.CHANGED_SETTINGS, subject=f"the store's budget: {budget}, {protect}")
    return redirect("store")
