"""Transactions: found, one of them, its changes."""

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Field, P, Query, QueryEx, Router, Schema

from replview.access.page import VIEWER, page
from replview.access.visibility import reading_session
from replview.store.models import Slot, SlotIncarnation, Transaction
from replview.store.read import history
from replview.store.read.changes.records import transaction_json, utc_text
from replview.store.read.rows import TransactionRow
from replview.store.read.transactions.listing import Cursor, find_transactions
from replview.ui.api.answers import BadRequest
from replview.ui.api.filters import BUDGET_SECONDS, FilterWords, Paging, transaction_filter
from replview.ui.api.slots import slot_named

router = Router(tags=["transactions"])


class TransactionsOut(Schema):
    """A page of transactions, newest first."""

    items: list[dict[str, Any]]
    #: Cursors of the pages beside it; null: there is nothing more.
    older: str | None
    newer: str | None
    complete: bool = Field(description="false: the time was over; go on with `older`")
    searched_back_to: str | None


@page(role=VIEWER)
@router.get("/transactions", response=TransactionsOut, summary="Find transactions")
def transactions(
    request: HttpRequest,
    words: Query[FilterWords],
    paging: Query[Paging],
    backwards: QueryEx[bool, P(description="the page before the cursor, not behind it")] = False,
) -> dict[str, Any]:
    """All transactions that pass the filter, in whatever state, newest first."""
    wanted = transaction_filter(words)
    if wanted.slot:
        slot_named(wanted.slot)
    found = find_transactions(
        reading_session(),
        wanted,
        cursor=_cursor(paging.cursor),
        backwards=backwards,
        limit=paging.limit,
        budget_seconds=BUDGET_SECONDS,
    )
    names = history.relation_names(
        reading_session(), {int(key) for row in found.rows for key in row.relations}
    )
    return {
        "items": [transaction_json(row, names, *found.slots[row.incarnation_id])
                  for row in found.rows if row.incarnation_id in found.slots],
        "older": str(found.older) if found.older else None,
        "newer": str(found.newer) if found.newer else None,
        "complete": found.complete,
        "searched_back_to": utc_text(found.searched_back_to),
    }  # fmt: skip


@page(role=VIEWER, of={"transaction_id": Transaction})
@router.get("/transactions/{int:transaction_id}", response=dict[str, Any], summary="One of them")
def transaction(request: HttpRequest, transaction_id: int) -> dict[str, Any]:
    """One transaction by its `id`: its states and times, who, and what it touched."""
    row, slot, number = find_one(transaction_id)
    names = history.relation_names(reading_session(), {int(key) for key in row.relations})
    return transaction_json(row, names, str(slot), number)


def find_one(transaction_id: int) -> tuple[TransactionRow, Slot, int]:
    """A transaction with its slot and the number of the slot's life. Raises ``Http404``."""
    row = (
        history.transaction_by_id(reading_session(), transaction_id)
        if transaction_id < 1 << 63
        else None
    )
    if row is None or row.state == "copying":
        raise Http404("there is no such transaction, or it was received anew")
    life = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    return row, life.slot, life.number


def _cursor(text: str) -> Cursor | None:
    if not text:
        return None
    try:
        return Cursor.parse(text)
    except ValueError:
        raise BadRequest("this is no cursor", "give back `older` or `newer` as it came") from None
