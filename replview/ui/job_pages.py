"""Functions that pages of exports and of history jobs share: addresses, ends, logs, lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from replview.store.models import Export, HistoryJob, LakeRun
from replview.text.formats import some_of
from replview.ui.params import Params
from replview.ui.sentence import Sentence, as_next

_PAGE_ROWS = 100
_LOG_BYTES = 200_000
_LONGEST_VALUE, _LONGEST_LIST = 4_000, 100_000

RecordedJob = Export | HistoryJob | LakeRun
Row = TypeVar("Row", bound=Export | HistoryJob)


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """A part of the sentence above a job's button: the value of a field, and the words before it.

    The words begin with the space or the comma after the part before.
    """

    words: str
    value: str


def words_of(query: QueryDict, lists: Sequence[str]) -> dict[str, str]:
    """Return the parameters of an address or a form; those in ``lists`` are joined by commas."""
    parameters = {}
    for name in query:
        values = query.getlist(name)
        text = ",".join(v for v in values if v) if name in lists else str(values[-1])
        if text and name != "csrfmiddlewaretoken":
            parameters[name] = text[: _LONGEST_LIST if name in lists else _LONGEST_VALUE]
    return parameters


def url_of(name: str, words: Mapping[str, str]) -> str:
    """Return ``/exports/?slot=shop/replview&tables=public.orders``."""
    query = urlencode({name: word for name, word in words.items() if word}, safe="/,:")
    return f"{reverse(name)}{'?' if query else ''}{query}"


def tables_words(tables: Sequence[str]) -> str:
    """Return ``orders, payments``; at most three names."""
    return some_of([name.removeprefix("public.") for name in tables], 3) or "all tables"


def failed(row: RecordedJob) -> Sentence:
    """Return the sentence of a failed job: cause and remedy."""
    following = as_next(row.problem_remedy) or "see the log."
    return Sentence(level="now", title="Failed:", cause=f"{row.problem_cause}.", next=following)


def if_ended(request: HttpRequest, row: RecordedJob) -> HttpResponse | None:
    """Make the browser reload the page of a job that ended while it polled; else return None."""
    if request.headers.get("HX-Request") == "true" and not row.waits:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return None


def log_of(row: RecordedJob) -> HttpResponse:
    """Return the end of a job's log, where this machine has it. Raises ``Http404``."""
    path = Path(row.log_path or "/nowhere")
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LOG_BYTES, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        where = row.worker.partition(":")[0] or "no worker yet"
        raise Http404(f"the log is not on this machine: it was written on {where}") from None
    return HttpResponse(text or "(empty)\n", content_type="text/plain; charset=utf-8")


def listed(request: HttpRequest, rows: QuerySet[Row]) -> tuple[list[Row], int | None]:
    """Return a page of jobs, newest first, and the id before which the next page begins."""
    before = Params(request.GET).number("before")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    jobs = list(rows[: _PAGE_ROWS + 1])
    older = jobs[_PAGE_ROWS - 1].pk if len(jobs) > _PAGE_ROWS else None
    return jobs[:_PAGE_ROWS], older
