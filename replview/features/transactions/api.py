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
    wanted = transaction_filter(words)
    if wanted.slot:
        slot_named(wanted.slot)
    found = find_transactions(
        reading_session(), wanted, cursor=_cursor(paging.cursor), backwards=backwards,
        limit=paging.limit, budget_seconds=BUDGET_SECONDS,
    )  # fmt: skip
    relations = {int(key) for row in found.rows for key in row.relations}
    names = history.relation_names(reading_session(), relations)
    return {
        "items": [transaction_json(row, names, *found.slots[row.incarnation_id])
                  for row in found.rows if row.incarnation_id in found.slots],
        "older": str(found.older) if found.older else None,
        "newer": str(found.newer) if found.newer else None,
        "complete": found.complete,
        "searched_back_to": utc_text(found.searched_back_to),
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
        again, _ = received_anew(transaction_id)
        if again is None:
            raise
        row = find_transaction(again)
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    return row, incarnation.slot, incarnation.number


def _cursor(text: str) -> ListCursor | None:
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
    wanted, place = _wanted(words), _place(paging.cursor)
    found = find_changes(
        reading_session(), wanted, cursor=place, limit=paging.limit, budget_seconds=BUDGET_SECONDS
    )
    searched_changes(wanted)
    kept, hidden = without_unchanged(reading_session(), found.rows, asked=words.unchanged)
    viewed_changes(change for _, change in kept)
    records = RecordWriter(reading_session(), wanted.slot)
    return {
        "items": [records.record(each) for each in kept],
        "next": str(found.older) if found.older else None,
        "complete": found.complete,
        "searched_back_to": utc_text(found.searched_back_to),
        "unknown": found.unknown,
        "hidden": len(hidden),
        "coverage": _coverage(wanted),
    }


@page(role=VIEWER, record=ROWS)
@router.get("/history", tags=["changes"], response=ChangesOut, summary="Follow changes in order")
def follow(
    request: HttpRequest, words: Query[ChangeWords], paging: Query[Paging]
) -> dict[str, object]:
    """Return the matching changes of one slot, oldest first, in the order of their commits.

    Pass `next` as `cursor` to continue; at the end it is the place where later changes will begin.
    """
    wanted, place = _wanted(words), _place(paging.cursor)
    return {**_forwards(words, wanted, place, paging.limit), "coverage": _coverage(wanted)}


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
    given = {**words.given(), "transaction": str(row.id)}
    wanted = _checked(WantedChanges.from_words(slot, given))
    place = _place(paging.cursor) or ScanPosition(number, row.commit_seq, 0)
    answer = _forwards(words, wanted, place, paging.limit)
    answer["next"] = None if answer["complete"] else answer["next"]
    return {**answer, "coverage": coverage_json(slot)}


def _forwards(
    words: ChangeWords, wanted: WantedChanges, place: ScanPosition | None, limit: int
) -> dict[str, object]:
    """Return a page in the order of history, as far as the time limit allows."""
    deadline = time.monotonic() + BUDGET_SECONDS
    writer = RecordWriter(reading_session(), wanted.slot)
    found: list[ChangeInTransaction] = []
    complete, unknown = True, 0
    for batch in ChangeScan(
        reading_session(), wanted, place=place, batching=Batching(PAGE, PAGE)
    ).batches():
        found += batch.found
        place, last = batch.place, batch
        unknown += len(batch.unknown)
        if len(found) > limit or time.monotonic() > deadline:
            complete = False
            break
    if len(found) > limit:
        row, change = found[limit - 1]
        # Unknown changes after the page count for the next page.
        unknown += len(before(last.unknown, found[limit - 1])) - len(last.unknown)
        number = writer.incarnation_number(row.incarnation_id)
        place = ScanPosition(number, row.commit_seq or 0, change.seq)
    searched_changes(wanted)
    kept, hidden = without_unchanged(reading_session(), found[:limit], asked=words.unchanged)
    viewed_changes(change for _, change in kept)
    return {
        "items": [writer.record(each) for each in kept],
        "next": str(place) if place else None,
        "complete": complete,
        "unknown": unknown,
        "hidden": len(hidden),
    }


def _wanted(words: ChangeWords) -> WantedChanges:
    return _checked(WantedChanges.from_words(slot_named(words.slot), words.given()))


def _checked(wanted: WantedChanges) -> WantedChanges:
    if wanted.trouble:
        raise BadRequest(wanted.trouble, "see /api/v1/docs")
    if unknown := unknown_words(reading_session(), wanted.filter.tables, str(wanted.slot)):
        raise BadRequest(unknown, "see /api/v1/relations")
    return wanted


def _place(text: str) -> ScanPosition | None:
    if not text:
        return None
    place = ScanPosition.parse(text)
    if place is None:
        raise BadRequest("this is no cursor", "give back `next` as it came")
    return place


def _coverage(wanted: WantedChanges) -> dict[str, object]:
    """Return the coverage of the slot, and of the table if the filter names one."""
    return coverage_json(wanted.slot, wanted.table(reading_session()))
