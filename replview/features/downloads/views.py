"""The view that downloads a filtered view's changes as JSON lines, CSV or typed Parquet."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import content_disposition_header

from replview.access.page import GET, OPERATOR, page
from replview.access.visibility import reading_session
from replview.features.downloads import files
from replview.store.read.changes.search import check_where
from replview.store.read.changes.selections import Selection
from replview.store.read.value_filter import WhereProblem
from replview.store.write.access_record import Action, note
from replview.store.write.search_record import searched_changes
from replview.ui.params import slot_asked_for
from replview.ui.streaming import stream


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPage:
    """The reason why there is no download."""

    #: The reason in a sentence; empty where there are too many changes.
    why: str = ""
    #: Number of changes at least, if more than ``most``; None: they were not counted.
    counted: int | None = None
    #: The most changes that a download holds.
    most: int = 0


@page(GET, role=OPERATOR, record=(Action.DOWNLOADED, Action.SEARCHED))
def download(request: HttpRequest) -> HttpResponseBase:
    """Stream the changes of a view as a file, by its parameters and ``format``."""
    params = {name: ",".join(request.GET.getlist(name)) for name in request.GET}
    slot = slot_asked_for(params.get("slot", ""))
    if slot is None:
        return _render_refusal(request, RefusedPage(why="there is no such slot"))
    form = params.get("format", "jsonl")
    if form not in files.FORMATS:
        reason = f"there is no format of that name; there are {', '.join(files.FORMATS)}"
        return _render_refusal(request, RefusedPage(why=reason))
    selection = Selection.from_words(reading_session(), slot, params)
    if selection.trouble:
        return _render_refusal(request, RefusedPage(why=selection.trouble))
    try:
        # Check the conditions before anything is sent.
        check_where(reading_session(), selection.wanted)
    except WhereProblem as error:
        return _render_refusal(request, RefusedPage(why=str(error)))
    counted = selection.more_than(reading_session(), files.MOST_CHANGES)
    if counted is not None:
        return _render_refusal(request, RefusedPage(counted=counted, most=files.MOST_CHANGES))
    searched_changes(selection.wanted)
    note(Action.DOWNLOADED, subject=f"changes of {slot}", source_id=slot.source_id,
         tables=selection.wanted.filter.tables, details={"format": form})  # fmt: skip
    return _file_response(request, selection, form)


def _render_refusal(request: HttpRequest, page: RefusedPage) -> HttpResponse:
    return render(request, "find/refused.html", {"page": page}, status=422)


def _file_response(request: HttpRequest, selection: Selection, form: str) -> HttpResponseBase:
    content_type, ending = files.FORMATS[form]
    notes: dict[str, str] = {}
    if form == "parquet":
        # The types are known only after the last change, and a Parquet file needs them first.
        folder = tempfile.TemporaryDirectory(prefix="replview-download-")
        try:
            path, notes = files.parquet_download(selection, Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
        pieces = files.file_pieces(path, folder)
        if path.suffix == ".zip":
            content_type, ending = "application/zip", "parquet.zip"
    else:
        pieces = files.line_pieces(selection, form)
    response = stream(request, pieces, content_type)
    name = files.file_name(selection, ending, f"{timezone.now():%Y%m%dT%H%M%SZ}")
    response["Content-Disposition"] = content_disposition_header(True, name)
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    if "cut" in notes:
        response["X-Replview-Cut"] = f"after {files.MOST_CHANGES} changes"
    if "undecided" in notes:
        response["X-Replview-Undecided"] = notes["undecided"]
    return response
