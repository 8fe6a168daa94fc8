"""Views of exports: the page with the fields of a slice, one export, all exports, and actions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from replview.access.guard import require
from replview.access.page import ADMIN, GET, OPERATOR, POST, ROWS, Nav, page
from replview.access.rights import Role
from replview.access.withheld import visible_exports
from replview.features.exports.files import files_of, zip_pieces
from replview.features.exports.outlook import spark_for
from replview.features.exports.page import (
    export_form,
    export_request_of,
    export_url,
    export_words,
    read_export_page,
)
from replview.features.exports.record import read_record
from replview.features.exports.request import ask
from replview.jobs import exports
from replview.store import instance_settings
from replview.store.models import Export, Slot
from replview.store.write.access_record import Action, note
from replview.targets.policy import (
    Policy,
    Refused,
    default_target,
    may_choose_anywhere,
    read_policy,
    target_of,
    try_target,
)
from replview.ui.job_pages import if_ended, listed, log_of
from replview.ui.params import scope_to, slot_named
from replview.ui.shell import no_record
from replview.ui.streaming import stream

#: Session key of the result of the last test write.
_TEST_RESULT_KEY = "export-tested"
_TEST_RESULT_SECONDS = 600


@page(GET, role=OPERATOR, nav=Nav(group="Export", label="Exports", icon="export", one_slot=True))
def exports_page(request: HttpRequest) -> HttpResponse:
    """Show the slice, its estimate and whether it can be exported; every state is a link."""
    params = export_words(request.GET)
    slot = slot_named(params.get("slot", ""))
    if slot is None:
        purpose = "writes history as Parquet"
        return no_record(request, "Exports", "No slot to export.", purpose)
    # The scope in the header becomes the slot that is shown, also when none was chosen.
    if not request.GET.get("slot"):
        scope_to(request, slot)
    return _render(request, slot, params)


@page(POST, role=OPERATOR, nav="exports")
def new(request: HttpRequest) -> HttpResponse:
    """Record a new export and redirect to its page; a refusal is shown in the form."""
    params = export_words(request.POST)
    slot = slot_named(params.get("slot", ""))
    if slot is None:
        raise Http404("there is no slot")
    try:
        read_policy().check()
        form = export_form(slot, params)
        export_request = export_request_of(slot, form)
        if not form.is_valid():
            return _render(request, slot, params, status=422)
        target = form.cleaned_data["to"] or default_target(export_request.slice)
        row = ask(
            export_request,
            target,
            by=request.user.get_username(),
            how=Export.How.PAGE,
            anywhere=may_choose_anywhere(request.user),
            spark=spark_for(export_request, target),
        )
    except Refused as refused:
        return _render(request, slot, params, refused=refused, status=422)
    return redirect("export", export_id=row.pk)


@page(POST, role=OPERATOR)
def test_target(request: HttpRequest) -> HttpResponse:
    """Write a small file to the target, read it back and delete it; the page shows the result."""
    params = export_words(request.POST)
    slot = slot_named(params.get("slot", ""))
    if slot is None:
        raise Http404("there is no slot")
    form = export_form(slot, params)
    try:
        policy = read_policy()
        policy.check()
        export_request = export_request_of(slot, form)
        text = form.cleaned_data.get("to") or default_target(export_request.slice)
        target = target_of(text, policy, anywhere=may_choose_anywhere(request.user))
        result: dict[str, Any] = {"target": target, "ok": True, "cause": "", "remedy": ""}
        try:
            try_target(target)
        except Refused as refused:
            result |= {"ok": False, "cause": refused.cause, "remedy": refused.remedy}
        request.session[_TEST_RESULT_KEY] = result | {"at": timezone.now().isoformat()}
    except Refused:
        request.session.pop(_TEST_RESULT_KEY, None)  # the page says why, tested or not
    return redirect(export_url(params))


@page(GET, role=OPERATOR, nav="exports", of={"export_id": Export}, record=ROWS)
def export(request: HttpRequest, export_id: int) -> HttpResponse:
    """Show one export: its progress, then its files."""
    row = get_object_or_404(visible_exports().select_related("slot__source"), pk=export_id)
    if (reload := if_ended(request, row)) is not None:
        return reload
    if row.slot is not None:
        scope_to(request, row.slot)
    is_poll = request.headers.get("HX-Request") == "true"
    template = "exports/export_now.html" if is_poll else "exports/export.html"
    record = read_record(row, read=request.GET.get("read", ""))
    return render(request, template, {"record": record})


@page(POST, role=OPERATOR, of={"export_id": Export})
def cancel(request: HttpRequest, export_id: int) -> HttpResponse:
    """Cancel an export; its record stays."""
    row = get_object_or_404(visible_exports(), pk=export_id)
    if row.requested_by != request.user.get_username():
        require(request, Role.ADMIN)
    if exports.rows.cancel(row.pk):
        note(Action.EXPORTED, subject=f"export {row.pk}", details={"act": "cancelled"})
    return redirect("export", export_id=row.pk)


@page(GET, role=OPERATOR, of={"export_id": Export}, record=(Action.DOWNLOADED,))
def files(request: HttpRequest, export_id: int) -> HttpResponseBase:
    """Stream all files of a finished export as a zip, whatever their size."""
    row = get_object_or_404(visible_exports().select_related("slot__source"), pk=export_id)
    try:
        paths = files_of(row)
    except Refused as refused:
        raise PermissionDenied(f"{refused.cause}. {refused.remedy}") from None
    except OSError:
        raise Http404("the files were deleted") from None
    note(Action.DOWNLOADED, subject=f"export {row.pk}", tables=row.slice.get("tables") or (),
         source_id=row.slot.source_id if row.slot else None,
         details={"format": "parquet"})  # fmt: skip
    response = stream(request, zip_pieces(paths), "application/zip")
    response["Content-Disposition"] = f'attachment; filename="export-{row.pk}.zip"'
    response["Cache-Control"], response["X-Content-Type-Options"] = "no-store", "nosniff"
    return response


@page(GET, role=OPERATOR, of={"export_id": Export})
def log(request: HttpRequest, export_id: int) -> HttpResponse:
    """Show the end of the job's log, if it is on this machine."""
    row = get_object_or_404(visible_exports(), pk=export_id)
    return log_of(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllExportsPage:
    """The list of all exports, the newest first."""

    rows: list[Export]
    #: Identifier at which the next page begins; None on the last page.
    older: int | None
    policy: Policy
    #: True if this account may export anywhere, and switch exports on and off.
    admin: bool


@page(GET, role=OPERATOR, nav="exports")
def all_exports(request: HttpRequest) -> HttpResponse:
    """List all exports, newest first."""
    rows, older = listed(request, visible_exports().defer("result", "slice"))
    page = AllExportsPage(
        rows=rows, older=older, policy=read_policy(), admin=may_choose_anywhere(request.user)
    )
    return render(request, "exports/all.html", {"page": page})


@page(POST, role=ADMIN)
def allow(request: HttpRequest) -> HttpResponse:
    """Switch exports on or off for the whole instance; admins alone may."""
    allowed = request.POST.get("allowed") == "1"
    instance_settings.write("exports.allowed", allowed, request.user.get_username())
    note(Action.CHANGED_SETTINGS, subject=f"exports: {'on' if allowed else 'off'}")
    return redirect("exports-all")


def _render(
    request: HttpRequest,
    slot: Slot,
    params: dict[str, str],
    *,
    refused: Refused | None = None,
    status: int = 200,
) -> HttpResponse:
    tested, anywhere = _last_test(request), may_choose_anywhere(request.user)
    page = read_export_page(slot, params, anywhere=anywhere, tested=None if refused else tested)
    context = {
        "page": page,
        "slot": slot,
        "refused": refused,
        "tested": tested if tested and tested.get("target") == page.target else None,
    }
    return render(request, "exports/exports.html", context, status=status)


def _last_test(request: HttpRequest) -> dict[str, Any] | None:
    """Return the result of the last test write, unless it is too old."""
    result: dict[str, Any] | None = request.session.get(_TEST_RESULT_KEY)
    if result is None:
        return None
    age = timezone.now() - datetime.fromisoformat(result["at"])
    return result if age.total_seconds() < _TEST_RESULT_SECONDS else None
