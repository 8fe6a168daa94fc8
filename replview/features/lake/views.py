"""Views of lakes: all lakes, one lake with its programs and runs, and actions."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from replview.access.guard import NeedsRole, require
from replview.access.page import GET, OPERATOR, POST, Nav, page
from replview.access.rights import Role
from replview.access.visibility import current_visibility
from replview.features.lake.page import read_lake_page, read_lakes_page, refused_now
from replview.features.lake.request import note_act, request_run
from replview.jobs.lakes import rows
from replview.store.models import Lake, LakeRun
from replview.targets.policy import Refused
from replview.ui.job_pages import log_of

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
        return _render(request, lake, refused, 422)
    return redirect("lake", lake_id=lake.pk)


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
    request: HttpRequest, lake: Lake, refused: Refused | None = None, status: int = 200
) -> HttpResponse:
    page = read_lake_page(lake, request.GET.get("table", ""), request.GET.get("kind", ""))
    is_poll = request.headers.get("HX-Request") == "true"
    template = "lake/lake_now.html" if is_poll else "lake/lake.html"
    return render(request, template, {"page": page, "not_run": refused}, status=status)
