"""History jobs: one as a sentence, one that runs or has run, all of them."""

from pathlib import Path

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from replview.access.page import OPERATOR, ROWS, Nav, page
from replview.access.permitted import NeedsRole, require
from replview.access.rights import Role
from replview.access.visibility import current_visibility
from replview.access.withheld import visible_jobs
from replview.features.history.job import rows
from replview.features.history.page import history_words, read_history_page
from replview.features.history.record import read_history_record
from replview.features.history.request import ask, read_history_request
from replview.store.write.access_record import Action, note
from replview.targets.policy import Refused, may_choose_anywhere
from replview.ui.params import Params

_PAGE_ROWS = 100
_LOG_BYTES = 200_000
#: Spark's errors are not ours: a value that it could not read stands in them.
_QUOTES = (
    "The log of a history job may quote values, and some of them nobody is to see here: it is a "
    "file on the machine that ran the job."
)


@page(role=OPERATOR, nav=Nav(group="Export", label="History jobs", icon="history"))
@require_GET
def history_page(request: HttpRequest) -> HttpResponse:
    """What would be computed, and over what. Every view of it is a link."""
    return _render(request, history_words(request.GET))


@page(role=OPERATOR, nav="history-jobs")
@require_POST
def new(request: HttpRequest) -> HttpResponse:
    """Ask for it, then show it; what was refused is said where it was asked for."""
    words, anywhere = history_words(request.POST), may_choose_anywhere(request.user)
    try:
        history_request = read_history_request(words, anywhere=anywhere)
        row = ask(history_request, by=request.user.get_username(), anywhere=anywhere)
    except Refused as refused:
        return _render(request, words, refused=refused, status=422)
    return redirect("history-job", job_id=row.pk)


@page(role=OPERATOR, nav="history-jobs", of={"job_id": None}, record=ROWS)
@require_GET
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    """One job: how long it runs, then its rows; a link that stays."""
    row = get_object_or_404(visible_jobs(), pk=job_id)
    htmx = request.headers.get("HX-Request") == "true"
    # What has ended while somebody looked has other parts: the whole page is read anew.
    if htmx and not row.waits:
        return HttpResponse(headers={"HX-Refresh": "true"})
    template = "history/job_now.html" if htmx else "history/job.html"
    return render(request, template, {"record": read_history_record(row)})


@page(role=OPERATOR, of={"job_id": None})
@require_POST
def cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    """Give it up; that it was asked for stays."""
    row = get_object_or_404(visible_jobs(), pk=job_id)
    if row.requested_by != request.user.get_username():
        require(request, Role.ADMIN)
    if rows.cancel(row.pk):
        note(Action.EXPORTED, subject=f"history job {row.pk}", details={"act": "cancelled"})
    return redirect("history-job", job_id=row.pk)


@page(role=OPERATOR, of={"job_id": None})
@require_GET
def log(request: HttpRequest, job_id: int) -> HttpResponse:
    """The end of what it and Spark wrote, where this machine has it."""
    row = get_object_or_404(visible_jobs(), pk=job_id)
    if not current_visibility().open:
        raise NeedsRole(None, _QUOTES)
    path = Path(row.log_path or "/nowhere")
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LOG_BYTES, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        where = row.worker.partition(":")[0] or "no worker yet"
        raise Http404(f"the log is not on this machine: it was written on {where}") from None
    return HttpResponse(text or "(empty)\n", content_type="text/plain; charset=utf-8")


@page(role=OPERATOR, nav="history-jobs")
@require_GET
def all_jobs(request: HttpRequest) -> HttpResponse:
    """What was computed, and by whom: the newest first."""
    before = Params(request.GET).number("before")
    rows = visible_jobs().defer("result")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: _PAGE_ROWS + 1])
    older = found[_PAGE_ROWS - 1].pk if len(found) > _PAGE_ROWS else None
    return render(request, "history/all.html", {"rows": found[:_PAGE_ROWS], "older": older})


def _render(
    request: HttpRequest,
    words: dict[str, str],
    *,
    refused: Refused | None = None,
    status: int = 200,
) -> HttpResponse:
    read = read_history_page(words, anywhere=may_choose_anywhere(request.user))
    return render(
        request, "history/history.html", {"page": read, "refused": refused}, status=status
    )
