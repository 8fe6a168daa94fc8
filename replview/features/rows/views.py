"""The views of one row's history, and of the row as of a moment."""

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from replview.access.page import GET, ROWS, VIEWER, Nav, page
from replview.access.visibility import reading_session
from replview.features.rows.columns import COLUMNS
from replview.features.rows.page import read_page
from replview.store.models import Slot, SlotIncarnation, Transaction
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.history import transaction_by_id
from replview.store.read.rows import TransactionRow
from replview.store.write.access_record import viewed
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.page_fields import named_fields
from replview.ui.row_start import read_start
from replview.ui.shell import no_slot, slot_view_of


@page(
    GET,
    role=VIEWER,
    nav=Nav(group="Browse", label="Row history", icon="rows", one_slot=True),
    record=ROWS,
)
def rows(request: HttpRequest) -> HttpResponse:
    """Show a row's history; without a table or key, the form that asks for them."""
    view = slot_view_of(request)
    if view is None:
        return no_slot(
            request,
            "Row history",
            "No rows yet.",
            "A row's history is that of one slot's stream. The command shows every statement "
            "before it runs one.",
            run="replview slot add SOURCE SLOT",
        )
    start = read_start(view.slot, request.GET)
    if start.table is not None and (start.key is not None or start.examples):
        viewed(relation_ids=start.table.relation_ids, subject="the history of a row"
               if start.key is not None else "rows that changed lately")  # fmt: skip
    if start.key is None:
        return render(request, "rows/start.html", {"slot": view.slot, "start": start})
    page = read_page(view.slot, start, request.GET)
    link = request.build_absolute_uri()
    content = {
        "slot": view.slot,
        "start": start,
        "page": page,
        "columns": COLUMNS,
        "link": link,
    }
    return render(request, "rows/history.html", content)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedChange:
    """A change in full, for the line of a history that is opened."""

    slot: Slot
    row: TransactionRow
    block: Block


@page(GET, role=VIEWER, of={"transaction_id": Transaction, "seq": None}, record=ROWS)
def change(request: HttpRequest, transaction_id: int, seq: int) -> HttpResponse:
    """Show one change in full, for a line that is opened."""
    opened = read_change(transaction_id, seq)
    return render(request, "rows/_change.html", named_fields(opened))


def read_change(transaction_id: int, seq: int) -> OpenedChange:
    """Read one change of a transaction. Raises ``Http404`` where there is none."""
    changes = changes_of(reading_session(), transaction_id, seq - 1, 1)
    row = transaction_by_id(reading_session(), transaction_id)
    if row is None or not changes or changes[0].seq != seq:
        raise Http404("there is no such change, or it was received again")
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    return OpenedChange(slot=incarnation.slot, row=row, block=blocks_of(changes)[0])
