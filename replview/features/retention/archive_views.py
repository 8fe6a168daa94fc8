"""The archive's choices on the store's page: where history goes and when; at once; nowhere."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from replview.access.page import ADMIN, page
from replview.features.retention.page import page_of
from replview.store.retention import archive
from replview.store.retention.archive_choices import (
    ask_now,
    choose_number,
    choose_target,
    switch_off,
)
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
