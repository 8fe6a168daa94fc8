"""Views of the live page and its test message."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render

from replview.access.page import GET, OPERATOR, POST, VIEWER, Nav, page
from replview.catalog.problems import SourceProblem
from replview.catalog.test_message import send_test_message, statement
from replview.jobs.drafts import watch_of
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Relation, Slot, SourceDraft
from replview.store.write.access_record import Action, note
from replview.text.parsing import table_word
from replview.text.problem import split_remedy
from replview.ui.changes.transaction_columns import LIVE_COLUMNS
from replview.ui.component_html import OPERATIONS_MANY
from replview.ui.params import slot_of
from replview.ui.shell import no_slot

_TABLES_OFFERED = 200
#: Operations that the filter offers; baselines are chosen by their state.
_OPERATIONS = "IUDTM"
_STATES = ("streaming", "prepared", "committed", "message", "snapshot", "aborted", "rolled back")


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePage:
    """The filters and the test message that stand around the rows of the live page."""

    slot: Slot
    #: Tables that the filter offers.
    tables: list[str]
    #: Operations that the filter offers: (letter, words).
    operations: list[tuple[str, str]]
    #: States that the filter offers.
    states: tuple[str, ...]
    #: The statement that a test message runs on the source.
    test_statement: str
    #: The watch that a temporary slot belongs to; None for any other slot.
    watch: SourceDraft | None


def build_live_page(slot: Slot, *, by: str) -> LivePage:
    """Read the filters for a slot; ``by`` is the account that a test message names."""
    tables = Relation.objects.filter(slot=slot).order_by("schema", "table")
    return LivePage(
        slot=slot,
        tables=list(dict.fromkeys(table_word(t.schema, t.table) for t in tables[:_TABLES_OFFERED])),
        operations=[(letter, OPERATIONS_MANY[letter]) for letter in _OPERATIONS],
        states=_STATES,
        test_statement=statement(by),
        watch=watch_of(slot),
    )


@page(GET, role=VIEWER, nav=Nav(group="Watch", label="Live", icon="live", one_slot=True, tab=True))
def live_page(request: HttpRequest) -> HttpResponse:
    """Show the page around the transactions, which arrive through a WebSocket."""
    slot = slot_of(request)
    if slot is None:
        return no_slot(
            request,
            "Live",
            "No slots to watch yet.",
            "Live shows the transactions of one slot as they commit. To watch without storing "
            "anything, use replview watch; to record, add a source and a slot. Each command shows "
            "its statements first.",
            run="replview watch postgresql://user@host/database",
        )
    page = build_live_page(slot, by=request.user.get_username())
    return render(request, "live_page/live.html", {"page": page, "columns": LIVE_COLUMNS})


@page(POST, role=OPERATOR, of={"slot_id": Slot})
def send(request: HttpRequest, slot_id: int) -> JsonResponse:
    """Write a test message on the slot's source; return its LSN, or the problem and its remedy."""
    slot = get_object_or_404(Slot.objects.select_related("source"), pk=slot_id)
    try:
        lsn = send_test_message(full_conninfo(slot.source), request.user.get_username())
    except SourceProblem as error:
        return _problem_response(error.cause, error.remedy)
    except UNUSABLE as error:
        return _problem_response(str(error), "")
    note(Action.CHANGED_SOURCE, subject="a test message was sent", source_id=slot.source_id)
    return JsonResponse({"lsn": lsn})


def _problem_response(cause: str, remedy: str) -> JsonResponse:
    parts = split_remedy(remedy)
    document = {"cause": cause, "before": parts.before, "run": parts.run, "after": parts.after}
    return JsonResponse(document, status=502)
