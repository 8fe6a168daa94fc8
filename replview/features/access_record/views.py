"""Views that show and download the access record."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import content_disposition_header

from replview.access.page import ADMIN, GET, page
from replview.access.reading import walk
from replview.features.access_record.page import read_access_page, wanted_of
from replview.features.access_record.record_file import csv_lines, json_pieces
from replview.store.write.access_record import Action, is_new, note
from replview.ui.streaming import stream

_FILE_FORMATS = {
    "csv": (csv_lines, "text/csv; charset=utf-8"),
    "jsonl": (json_pieces, "application/jsonl; charset=utf-8"),
}


@page(GET, role=ADMIN, nav="masks", record=(Action.VIEWED_ACCESS_RECORD,))
def access_record(request: HttpRequest) -> HttpResponse:
    """Show a page of the record; viewing it is recorded too."""
    query = wanted_of(request.GET)
    user = request.user.get_username()
    if is_new((Action.VIEWED_ACCESS_RECORD, user, tuple(query.words().items()))):
        note(Action.VIEWED_ACCESS_RECORD, details=dict(query.words()))
    return render(request, "access_record/access.html", {"page": read_access_page(query)})


@page(GET, role=ADMIN, record=(Action.EXPORTED,))
def as_file(request: HttpRequest) -> HttpResponseBase:
    """Download the filtered record as CSV or JSON lines."""
    query = wanted_of(request.GET)
    form = request.GET.get("format", "csv")
    form = form if form in _FILE_FORMATS else "csv"
    note(Action.EXPORTED, subject="the access record", details={**query.words(), "format": form})
    write, content_type = _FILE_FORMATS[form]
    response = stream(request, write(walk(query.filter)), content_type)
    name = f"replview-access-{timezone.now():%Y%m%dT%H%M%SZ}.{form}"
    response["Content-Disposition"] = content_disposition_header(True, name)
    response["Cache-Control"] = "no-store"
    return response
