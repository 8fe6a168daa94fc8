"""API that finds transactions and changes, and follows changes in the order of history."""

import time
from typing import Any

from django.http import Http404, HttpRequest
from ninja import Field, P, Query, QueryEx, Router, Schema

from replview.access.page import ROWS, VIEWER, Action, page
from replview.access.visibility import reading_session
from replview.store.models import Slot, SlotIncarnation
from replview.store.read import history
from replview.store.read.changes.batches import Batching
from replview.store.read.changes.records import transaction_json, utc_text
from replview.store.read.changes.scan import ChangeInTransaction, ChangeScan, before
from replview.store.read.changes.scan_places import ScanPosition
from replview.store.read.changes.search import find_changes
from replview.store.read.changes.selections import without_unchanged
from replview.store.read.changes.stream import PAGE, RecordWriter
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.rows import TransactionRow
from replview.store.read.table_names import unknown_words
from replview.store.read.transactions.listing import ListCursor, find_transactions
from replview.store.write.access_record import viewed_changes
from replview.store.write.search_record import searched_changes
from replview.ui.api.answers import BadRequest
from replview.ui.api.filters import BUDGET_SECONDS, FilterWords, Paging, transaction_filter
from replview.ui.api.slots import coverage_json, slot_named
from replview.ui.changes.drawer import find_transaction, received_anew

router = Router(tags=["transactions"])


class TransactionsOut(Schema):
    """A page of transactions, newest first."""

    items: list[dict[str, Any]]
    #: Cursors of the adjacent pages; null if there are none.
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
) -> dict[str, object]:
    """Return all transactions that match the filter, in any state, newest first."""
    filter_ = transaction_filter(words)
    if filter_.slot:
        slot_named(filter_.slot)
    results = find_transactions(
        reading_session(), filter_, cursor=_parse_cursor(paging.cursor), backwards=backwards,
        limit=paging.limit, budget_seconds=BUDGET_SECONDS,
    )  # fmt: skip
    relations = {int(key) for row in results.rows for key in row.relations}
    names = history.relation_names(reading_session(), relations)
    return {
        "items": [transaction_json(row, names, *results.slots[row.incarnation_id])
                  for row in results.rows if row.incarnation_id in results.slots],
        "older": str(results.older) if results.older else None,
        "newer": str(results.newer) if results.newer else None,
        "complete": results.complete,
        "searched_back_to": utc_text(results.searched_back_to),
    }  # fmt: skip


@page(role=VIEWER, of={"transaction_id": None})
@router.get("/transactions/{int:transaction_id}", response=dict[str, Any], summary="One of them")
def transaction(request: HttpRequest, transaction_id: int) -> dict[str, object]:
    """Return one transaction by its `id`: states, times, actors, and the tables it changed.

    A transaction that was received again is returned with its present `id`.
    """
    row, slot, number = find_one(transaction_id)
    names = history.relation_names(reading_session(), {int(key) for key in row.relations})
    return transaction_json(row, names, str(slot), number)


def find_one(transaction_id: int) -> tuple[TransactionRow, Slot, int]:
    """Return a transaction, its slot, and the number of its incarnation.

    Return its successor if the transaction was received again. Raises ``Http404``.
    """
    try:
        row = find_transaction(transaction_id)
    except Http404:
        successor_id, _ = received_anew(transaction_id)
        if successor_id is None:
            raise
        row = find_transaction(successor_id)
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    return row, incarnation.slot, incarnation.number


def _parse_cursor(text: str) -> ListCursor | None:
    if not text:
        return None
    try:
        return ListCursor.parse(text)
    except ValueError:
        raise BadRequest("this is no cursor", "give back `older` or `newer` as it came") from None


class ChangeWords(FilterWords):
    """The filter of transactions, with a condition on values."""

    where: str = Field(
        "",
        description="`status = paid`, `amount > 100`, `status changed`, `status: pending -> paid`, "
        "joined with `and`",
    )

    unchanged: str = Field(
        "",
        pattern="^(hidden)?$",
        description="`hidden`: leave out updates that are known to have left every value as it was",
    )


class ChangesOut(Schema):
    """A page of changes."""

    items: list[dict[str, Any]]
    #: Cursor of the next page; null if there is none.
    next: str | None
    complete: bool = Field(description="false: there is more, or the time was over; see `next`")
    searched_back_to: str | None = None
    #: Changes left out because their earlier row is unknown, so that they may match or not.
    unknown: int = 0
    #: Updates left out of this page because they changed nothing (`unchanged=hidden`).
    hidden: int = 0
    coverage: dict[str, Any]


@page(role=VIEWER, record=(*ROWS, Action.SEARCHED))
@router.get("/changes", tags=["changes"], response=ChangesOut, summary="Find changes")
def changes(
    request: HttpRequest, words: Query[ChangeWords], paging: Query[Paging]
) -> dict[str, object]:
    """Return the matching changes of one slot, newest first."""
    query, position = _change_query(words), _parse_position(paging.cursor)
    results = find_changes(
        reading_session(), query, cursor=position, limit=paging.limit, budget_seconds=BUDGET_SECONDS
    )
    searched_changes(query)
    shown, hidden = without_unchanged(reading_session(), results.rows, asked=words.unchanged)
    viewed_changes(change for _, change in shown)
    records = RecordWriter(reading_session(), query.slot)
    return {
        "items": [records.record(item) for item in shown],
        "next": str(results.older) if results.older else None,
        "complete": results.complete,
        "searched_back_to": utc_text(results.searched_back_to),
        "unknown": results.unknown,
        "hidden": len(hidden),
        "coverage": _coverage(query),
    }


@page(role=VIEWER, record=ROWS)
@router.get("/history", tags=["changes"], response=ChangesOut, summary="Follow changes in order")
def follow(
    request: HttpRequest, words: Query[ChangeWords], paging: Query[Paging]
) -> dict[str, object]:
    """Return the matching changes of one slot, oldest first, in the order of their commits.

    Pass `next` as `cursor` to continue; at the end it is the place where later changes will begin.
    """
    query, position = _change_query(words), _parse_position(paging.cursor)
    return {**_page_forwards(words, query, position, paging.limit), "coverage": _coverage(query)}


@page(role=VIEWER, of={"transaction_id": None}, record=ROWS)
@router.get(
    "/transactions/{int:transaction_id}/changes",
    response=ChangesOut,
    summary="The changes of one transaction",
)
def changes_of_transaction(
    request: HttpRequest, transaction_id: int, words: Query[ChangeWords], paging: Query[Paging]
) -> dict[str, object]:
    """Return the changes of one committed transaction, in its own order."""
    row, slot, number = find_one(transaction_id)
    if row.commit_seq is None:
        raise BadRequest(
            f"transaction {transaction_id} is {row.state}: it has no place in history",
            "only what has committed can be read here",
        )
    fields = {**words.given(), "transaction": str(row.id)}
    query = _check_query(WantedChanges.from_words(slot, fields))
    position = _parse_position(paging.cursor) or ScanPosition(number, row.commit_seq, 0)
    answer = _page_forwards(words, query, position, paging.limit)
    answer["next"] = None if answer["complete"] else answer["next"]
    return {**answer, "coverage": coverage_json(slot)}


def _page_forwards(
    words: ChangeWords, query: WantedChanges, position: ScanPosition | None, limit: int
) -> dict[str, object]:
    """Return a page in the order of history, as far as the time limit allows."""
    deadline = time.monotonic() + BUDGET_SECONDS
    writer = RecordWriter(reading_session(), query.slot)
    matches: list[ChangeInTransaction] = []
    complete, unknown = True, 0
    for batch in ChangeScan(
        reading_session(), query, place=position, batching=Batching(PAGE, PAGE)
    ).batches():
        matches += batch.found
        position, last_batch = batch.place, batch
        unknown += len(batch.unknown)
        if len(matches) > limit or time.monotonic() > deadline:
            complete = False
            break
    if len(matches) > limit:
        row, change = matches[limit - 1]
        # Unknown changes after the page count for the next page.
        unknown += len(before(last_batch.unknown, matches[limit - 1])) - len(last_batch.unknown)
        number = writer.incarnation_number(row.incarnation_id)
        position = ScanPosition(number, row.commit_seq or 0, change.seq)
    searched_changes(query)
    shown, hidden = without_unchanged(reading_session(), matches[:limit], asked=words.unchanged)
    viewed_changes(change for _, change in shown)
    return {
        "items": [writer.record(item) for item in shown],
        "next": str(position) if position else None,
        "complete": complete,
        "unknown": unknown,
        "hidden": len(hidden),
    }


def _change_query(words: ChangeWords) -> WantedChanges:
    return _check_query(WantedChanges.from_words(slot_named(words.slot), words.given()))


def _check_query(query: WantedChanges) -> WantedChanges:
    if query.trouble:
        raise BadRequest(query.trouble, "see /api/v1/docs")
    if unknown := unknown_words(reading_session(), query.filter.tables, str(query.slot)):
        raise BadRequest(unknown, "see /api/v1/relations")
    return query


def _parse_position(text: str) -> ScanPosition | None:
    if not text:
        return None
    position = ScanPosition.parse(text)
    if position is None:
        raise BadRequest("this is no cursor", "give back `next` as it came")
    return position


def _coverage(query: WantedChanges) -> dict[str, object]:
    """Return the coverage of the slot, and of the table if the filter names one."""
    return coverage_json(query.slot, query.table(reading_session()))
