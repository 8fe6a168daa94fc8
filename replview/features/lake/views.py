"""Views of lakes: all lakes, a new one, one lake with its programs and runs, and actions."""

from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from replview.access.guard import NeedsRole, require
from replview.access.page import ADMIN, GET, GET_POST, OPERATOR, POST, Nav, page
from replview.access.rights import Role
from replview.access.visibility import current_visibility
from replview.features.lake.forms import LakeForm, RemovalForm, ScheduleForm
from replview.features.lake.new_page import LISTS, read_new_lake_page
from replview.features.lake.page import read_lake_page, read_lakes_page
from replview.features.lake.request import (
    add,
    note_act,
    refused_now,
    remove,
    request_run,
    set_schedule,
)
from replview.jobs.lakes import rows
from replview.store.models import Lake, LakeRun
from replview.targets.policy import Refused, may_choose_anywhere
from replview.ui.forms import add_problem
from replview.ui.job_pages import log_of, words_of
from replview.ui.params import scope_to, slot_named
from replview.ui.shell import no_record

#: A log is withheld, since Spark's error messages may quote values.
_LOG_WITHHELD = (
    "The log of a lake's run may quote values, and some of them nobody is to see here: it is a "
    "file on the machine that ran it."
)


@page(GET, role=OPERATOR, nav=Nav(group="Export", label="Lake", icon="lake"))
def lakes(request: HttpRequest) -> HttpResponse:
    """Show each lake with its tables."""
    is_poll = request.headers.get("HX-Request") == "true"
    template = "lake/lakes_now.html" if is_poll else "lake/lakes.html"
    return render(request, template, {"page": read_lakes_page()})


@page(GET_POST, role=OPERATOR, nav="lakes")
def new(request: HttpRequest) -> HttpResponse:
    """Show the fields of a new lake, every state as a link; a POST adds it and redirects to it."""
    is_sent = request.method == "POST"
    words = words_of(request.POST if is_sent else request.GET, LISTS)
    slot = slot_named(words.get("slot", ""))
    if slot is None:
        purpose = "keeps tables of a slot in Delta or Iceberg"
        return no_record(request, "New lake", "No slot to read.", purpose)
    scope_to(request, slot)
    anywhere = may_choose_anywhere(request.user)
    form = LakeForm(slot, words, by=request.user.get_username(), anywhere=anywhere, is_sent=is_sent)
    if form.is_valid() and form.lake is not None and is_sent:
        try:
            lake = add(form.lake, form.chosen, anywhere=anywhere)
        except Refused as refused:
            add_problem(form, refused)
        else:
            return redirect("lake", lake_id=lake.pk)
    page = read_new_lake_page(slot, form, words, anywhere=anywhere)
    return render(request, "lake/new.html", {"page": page}, status=422 if is_sent else 200)


@page(GET, role=OPERATOR, nav="lakes", of={"lake_id": Lake})
def one_lake(request: HttpRequest, lake_id: int) -> HttpResponse:
    """Show one lake, its last runs, and programs that open the table of the address."""
    return _render(request, _lake(lake_id))


@page(POST, role=OPERATOR, nav="lakes", of={"lake_id": Lake})
def run(request: HttpRequest, lake_id: int) -> HttpResponse:
    """Request a run or maintenance, and redirect to the lake; a refusal is shown there."""
    lake, action = _lake(lake_id), request.POST.get("action", "")
    if action not in (LakeRun.Action.RUN, LakeRun.Action.MAINTAIN):
        raise Http404("there is no such action")
    try:
        if refused := refused_now():
            raise refused
        request_run(lake, action, by=request.user.get_username(), how=LakeRun.How.PAGE)
    except Refused as refused:
        return _render(request, lake, 422, not_run=refused)
    return redirect("lake", lake_id=lake.pk)


@page(POST, role=OPERATOR, nav="lakes", of={"lake_id": Lake})
def schedule(request: HttpRequest, lake_id: int) -> HttpResponse:
    """Set or end the lake's schedule; a refusal is shown beside its field."""
    lake, form = _lake(lake_id), ScheduleForm(request.POST)
    if form.is_valid():
        try:
            set_schedule(lake, form.cleaned_data["every_minutes"])
        except Refused as refused:
            add_problem(form, refused)
    if form.errors:
        return _render(request, lake, 422, schedule=form)
    return redirect("lake", lake_id=lake.pk)


@page(POST, role=ADMIN, nav="lakes", of={"lake_id": Lake})
def removal(request: HttpRequest, lake_id: int) -> HttpResponse:
    """Forget the lake once its name is typed; its tables stay where they are."""
    lake = _lake(lake_id)
    form = RemovalForm(lake, request.POST)
    if form.is_valid():
        try:
            remove(lake, delete_tables=False)
        except Refused as refused:
            add_problem(form, refused)
    if form.errors:
        return _render(request, lake, 422, removal=form)
    return redirect("lakes")


@page(POST, role=OPERATOR, of={"lake_id": Lake})
def cancel(request: HttpRequest, lake_id: int) -> HttpResponse:
    """Cancel the lake's run; the next one goes on from the last commit."""
    lake = _lake(lake_id)
    row = rows.rows(rows.unended, lake=lake).first()
    if row is not None:
        if row.requested_by != request.user.get_username():
            require(request, Role.ADMIN)
        if rows.cancel(row.pk):
            note_act(lake, {"act": "cancelled", "run": row.pk})
    return redirect("lake", lake_id=lake.pk)


@page(GET, role=OPERATOR, of={"lake_id": Lake})
def log(request: HttpRequest, lake_id: int) -> HttpResponse:
    """Show the end of the log of the last run, if it is on this machine."""
    row = _lake(lake_id).runs.first()
    if row is None:
        raise Http404("the lake was not run yet")
    if not current_visibility().open:
        raise NeedsRole(None, _LOG_WITHHELD)
    return log_of(row)


def _lake(lake_id: int) -> Lake:
    return get_object_or_404(Lake.objects.select_related("slot__source"), pk=lake_id)


def _render(
    request: HttpRequest, lake: Lake, status: int = 200, **shown: Refused | Form
) -> HttpResponse:
    """Show a lake; ``shown`` replaces its forms, or has the refusal of a run."""
    page = read_lake_page(lake, request.GET.get("table", ""), request.GET.get("kind", ""))
    is_poll = request.headers.get("HX-Request") == "true"
    template = "lake/lake_now.html" if is_poll else "lake/lake.html"
    forms = {
        "schedule": ScheduleForm(initial={"every_minutes": lake.every_minutes}),
        "removal": RemovalForm(lake),
    }
    return render(request, template, {"page": page, **forms, **shown}, status=status)
