"""The store's own size and what gives way first; what is archived, and where."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from replview.access.page import ADMIN, VIEWER, Nav, page
from replview.catalog.wal_budget import parse_size, size_words
from replview.features.retention.page import page_of
from replview.store import instance_settings
from replview.store.models import Slot
from replview.store.retention import archive
from replview.store.retention.archived import ask_now, choose_number, choose_target, switch_off
from replview.store.write.access_record import Action, note
from replview.targets.policy import Refused, read_policy, target_of, try_target
from replview.ui.archive_text import ArchiveForm


@page(role=ADMIN)
@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Where to, once that was written to, and when; what is refused is said where it was asked."""
    form = ArchiveForm.of(request.POST)
    try:
        after_hours, every_seconds = form.numbers()
        target = target_of(form.target, read_policy(), anywhere=True)
        # What it was before may be away for the moment: the numbers hold all the same.
        if target != archive.chosen().target:
            try_target(target)
    except ValueError as error:
        return _refused(request, form, str(error))
    except Refused as refused:
        return _refused(request, form, f"{refused.cause}. {refused.remedy}")
    by, shown = request.user.get_username(), ArchiveForm.now()
    # As shown, which was rounded: not touched.
    if form.after_hours != shown.after_hours:
        choose_number("after_hours", after_hours, by)
    if form.every_hours != shown.every_hours:
        choose_number("every_seconds", every_seconds, by)
    choose_target(target, by)
    return _back()


@page(role=ADMIN)
@require_POST
def now(request: HttpRequest) -> HttpResponse:
    """All that is stored goes there as soon as a worker takes it up."""
    ask_now(request.user.get_username())
    return _back()


@page(role=ADMIN)
@require_POST
def off(request: HttpRequest) -> HttpResponse:
    """Nothing more goes there."""
    switch_off(request.user.get_username())
    return _back()


def _refused(request: HttpRequest, form: ArchiveForm, why: str) -> HttpResponse:
    form.error = f"{why[:1].upper()}{why[1:].rstrip('.')}."
    return render(request, "retention/store.html", {"page": page_of(form=form)}, status=422)


def _back() -> HttpResponse:
    return redirect(f"{reverse('store')}#archive")


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
