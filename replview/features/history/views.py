"""Views of history jobs: the page with the fields of a job, one job, all jobs, and actions."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from replview.access.guard import NeedsRole, require
from replview.access.page import GET, OPERATOR, POST, ROWS, Nav, page
from replview.access.rights import Role
from replview.access.visibility import current_visibility
from replview.access.withheld import visible_jobs
from replview.features.history.job import rows
from replview.features.history.page import LISTS, read_history_page
from replview.features.history.record import read_history_record
from replview.features.history.request import ask, read_history_request
from replview.store.models import HistoryJob
from replview.store.write.access_record import Action, note
from replview.targets.policy import Refused, may_choose_anywhere
from replview.ui.job_pages import if_ended, listed, log_of, words_of

#: A log is withheld, since Spark's error messages may quote values.
_LOG_WITHHELD = (
    "The log of a history job may quote values, and some of them nobody is to see here: it is a "
    "file on the machine that ran the job."
)


@page(GET, role=OPERATOR, nav=Nav(group="Export", label="History jobs", icon="history"))
def history_page(request: HttpRequest) -> HttpResponse:
    """Show the job, its root and whether it can run; every state is a link."""
    words = words_of(request.GET, LISTS)
    if former := words.pop("life", ""):  # in bookmarks of earlier releases
        words.setdefault("incarnation", former)
    return _render(request, words)


@page(POST, role=OPERATOR, nav="history-jobs")
def new(request: HttpRequest) -> HttpResponse:
    """Record a new job and redirect to its page; a refusal is shown in the form."""
    params, anywhere = words_of(request.POST, LISTS), may_choose_anywhere(request.user)
    try:
        history_request = read_history_request(params, anywhere=anywhere)
        row = ask(history_request, by=request.user.get_username(), anywhere=anywhere)
    except Refused as refused:
        return _render(request, params, refused, 422)
    return redirect("history-job", job_id=row.pk)


@page(GET, role=OPERATOR, nav="history-jobs", of={"job_id": None}, record=ROWS)
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    """Show one job: its duration, then its rows."""
    row = get_object_or_404(visible_jobs(), pk=job_id)
    if (reload := if_ended(request, row)) is not None:
        return reload
    is_poll = request.headers.get("HX-Request") == "true"
    template = "history/job_now.html" if is_poll else "history/job.html"
    return render(request, template, {"record": read_history_record(row)})


@page(POST, role=OPERATOR, of={"job_id": None})
def cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    """Cancel a job; its record stays."""
    row = get_object_or_404(visible_jobs(), pk=job_id)
    if row.requested_by != request.user.get_username():
        require(request, Role.ADMIN)
    if rows.cancel(row.pk):
        note(Action.EXPORTED, subject=f"history job {row.pk}", details={"act": "cancelled"})
    return redirect("history-job", job_id=row.pk)


@page(GET, role=OPERATOR, of={"job_id": None})
def log(request: HttpRequest, job_id: int) -> HttpResponse:
    """Show the end of the log of the job and of Spark, if it is on this machine."""
    row = get_object_or_404(visible_jobs(), pk=job_id)
    if not current_visibility().open:
        raise NeedsRole(None, _LOG_WITHHELD)
    return log_of(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllJobsPage:
    """The list of all history jobs, the newest first."""

    rows: list[HistoryJob]
    #: Identifier at which the next page begins; None on the last page.
    older: int | None


@page(GET, role=OPERATOR, nav="history-jobs")
def all_jobs(request: HttpRequest) -> HttpResponse:
    """List all history jobs, newest first."""
    rows, older = listed(request, visible_jobs().defer("result"))
    return render(request, "history/all.html", {"page": AllJobsPage(rows=rows, older=older)})


def _render(
    request: HttpRequest, params: dict[str, str], refused: Refused | None = None, status: int = 200
) -> HttpResponse:
    page = read_history_page(params, anywhere=may_choose_anywhere(request.user))
    context = {"page": page, "refused": refused}
    return render(request, "history/history.html", context, status=status)
