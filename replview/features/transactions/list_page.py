"""The list of transactions, with its filters as links and menus."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from replview.access.page import GET, VIEWER, Action, Nav, page
from replview.access.visibility import reading_session
from replview.features.transactions.search import matching_transactions
from replview.store.models import Slot
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.days import last_deleted_day
from replview.store.read.table_names import unknown_tables
from replview.store.read.transactions import listing
from replview.store.read.transactions.fields import FIELDS, Field
from replview.store.read.transactions.filter_values import OPERATIONS, read_lsn, read_time
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.write.search_record import searched_transactions
from replview.text.parsing import table_word
from replview.ui.changes.transaction_columns import (
    LIST_COLUMNS,
    ONE_SLOT_COLUMNS,
    TransactionColumn,
)
from replview.ui.changes.transaction_lines import (
    MarkerLine,
    TransactionLine,
    transaction_lines,
    with_markers,
)
from replview.ui.component_html import OPERATIONS_MANY
from replview.ui.params import Params, scope_to
from replview.ui.saved_filters import saved_filters
from replview.ui.shell import fleet_of, no_record

#: Rows of a page.
PAGE_ROWS = 50
#: Time limit of a page's search.
_BUDGET_SECONDS = 0.5
_TABLES_LIMIT = 500
#: Query parameters that may be repeated (checkboxes) and form one list.
_LIST_PARAMETERS = ("tables", "states")
STATES = (
    "streaming", "prepared", "committed", "message", "aborted", "rolled back", "skipped",
    "snapshot", "unknown",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ListPosition:
    """The place in the list at which the page begins."""

    cursor: listing.ListCursor | None = None
    backwards: bool = False
    #: Text of a jump target, and whether it was found.
    at: str = ""
    found: bool = True
    #: Id of the transaction that was jumped to.
    chosen: int | None = None
    #: True when the first row is the jump target.
    choose_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationLink:
    """A button that filters by one operation."""

    letter: str
    name: str
    #: True when changes of this kind are shown.
    on: bool
    #: Address that switches the operation; the first one pressed is shown alone.
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFound:
    """Information from the record for an empty list."""

    #: Tables of the filter without any change, under any name they had.
    unknown_tables: list[str]
    #: Coverage of the slot's record; None if no slot is chosen.
    coverage: Coverage | None
    #: Last day that retention deleted; all earlier days are deleted too.
    deleted_until: dt.date | None
    #: Last transaction before the filter's start time that matches otherwise.
    nearest: TransactionLine | None


@dataclass(slots=True, kw_only=True)
class TransactionsPage:
    """A page of the list of transactions, with its filters."""

    wanted: TransactionFilter
    place: ListPosition
    slot: Slot | None
    lines: list[TransactionLine | MarkerLine]
    found: listing.TransactionListPage
    tables: list[str]
    #: True when rows of several slots are listed, so that each row names its slot.
    several: bool
    operations: list[OperationLink]
    words: str = ""
    #: None unless the list is empty.
    nothing: NothingFound | None = None
    #: Name and address of each slot to choose, *all* first; empty if there is one slot.
    slots: list[tuple[str, str]] = field(default_factory=list)
    states: tuple[str, ...] = STATES

    @property
    def columns(self) -> tuple[TransactionColumn, ...]:
        """Return the columns of the list; that of one slot does not name the slot."""
        return LIST_COLUMNS if self.several else ONE_SLOT_COLUMNS

    @property
    def more(self) -> list[tuple[Field, str]]:
        """Return the fields of the menu *More*, each with the text of its parameter."""
        texts = self.wanted.words()
        return [(entry, texts.get(entry.parameter, "")) for entry in FIELDS if entry.page_input]

    @property
    def more_set(self) -> int:
        """Return how many fields of the menu *More* are set."""
        return sum(1 for _, text in self.more if text)

    def url(self, **changes: str) -> str:
        """Return the list's address with some parameters changed."""
        return list_url(self.wanted, **changes)

    @property
    def older_url(self) -> str | None:
        """Return the address of the older page, if there is one."""
        older = self.found.older
        return None if older is None else list_url(self.wanted, cursor=str(older))

    @property
    def newer_url(self) -> str | None:
        """Return the address of the newer page, if there is one."""
        newer = self.found.newer
        return None if newer is None else list_url(self.wanted, cursor=str(newer), back="1")

    @property
    def oldest_url(self) -> str:
        """Return the address of the oldest page."""
        return list_url(self.wanted, cursor="first", back="1")

    @property
    def clear_url(self) -> str:
        """Return the address without filters."""
        return list_url(TransactionFilter(slot=self.wanted.slot))

    @property
    def download_query(self) -> str:
        """Return the query string that downloads the filtered transactions."""
        return urlencode(self.wanted.words() | {"slot": str(self.slot or "")}, safe="/,")

    @property
    def at_newest(self) -> bool:
        """Return whether the page begins with the newest transaction."""
        return self.found.newer is None


def wanted_of(params: QueryDict) -> TransactionFilter:
    """Read the filter from the query parameters."""
    values: dict[str, Any] = {name: params.get(name) for name in params}
    return TransactionFilter.from_words(
        values
        | {name: ",".join(params.getlist(name)) for name in _LIST_PARAMETERS if name in params}
    )


def list_url(filter_: TransactionFilter, **changes: str) -> str:
    """Return the list's address, such as ``/transactions/?slot=shop/replview&actor=alice``."""
    params = {name: value for name, value in (filter_.words() | changes).items() if value}
    query = urlencode(params, safe="/,")
    return f"{reverse('transactions')}{'?' if query else ''}{query}"


def place_of(params: Mapping[str, object], slot: str) -> ListPosition:
    """Return the place of a cursor or of a jump target, else the newest transaction."""
    text = str(params.get("cursor") or "")
    if text == "first":
        return ListPosition(
            cursor=listing.cursor_at_beginning(reading_session(), slot), backwards=True
        )
    if text:
        try:
            return ListPosition(
                cursor=listing.ListCursor.parse(text), backwards=bool(params.get("back"))
            )
        except ValueError:
            return ListPosition()
    target = Params(params).text("at")
    return _target_position(target, slot) if target else ListPosition()


def _target_position(target: str, slot: str) -> ListPosition:
    """Return the place of a time, of an LSN, or of a transaction by its xid or gid."""
    if not target.isdigit() and (moment := read_time(target)) is not None:
        return ListPosition(
            cursor=listing.cursor_at_time(reading_session(), moment, slot), at=target
        )
    if (lsn := read_lsn(target)) is not None:
        cursor = listing.cursor_at_lsn(reading_session(), lsn, slot)
        return ListPosition(cursor=cursor, at=target, choose_first=True)
    row = next(iter(matching_transactions(target, slot)), None)
    if row is None:
        return ListPosition(at=target, found=False)
    moment = row.commit_time or row.ended_at or row.stored_at or row.received_at
    cursor = listing.cursor_at_time(reading_session(), moment, slot)
    if row.commit_seq is not None:
        cursor.seqs[row.incarnation_id] = row.commit_seq + 1
    elif row.stored_at is not None:
        cursor.ended[row.incarnation_id] = (row.stored_at, row.pk + 1)
    return ListPosition(cursor=cursor, at=target, chosen=row.pk)


def read_page(
    params: QueryDict, slot: Slot | None, several: bool, slot_names: Sequence[str] = ()
) -> TransactionsPage:
    """Read the page; ``slot_names`` are the slots to choose from, if there are several."""
    filter_ = wanted_of(params)
    position = place_of(params, filter_.slot)
    results = listing.find_transactions(
        reading_session(),
        filter_,
        cursor=position.cursor,
        backwards=position.backwards,
        limit=PAGE_ROWS,
        budget_seconds=_BUDGET_SECONDS,
        tables_most=_TABLES_LIMIT,
    )
    if position.choose_first and results.rows:
        position.chosen = results.rows[0].id
    lines = transaction_lines(results.rows, results.slots, results.tables, position.chosen)
    page = TransactionsPage(
        wanted=filter_,
        place=position,
        slot=slot,
        lines=[*lines],
        found=results,
        tables=sorted({table_word(*name) for name in results.tables.values()} | {*filter_.tables}),
        several=several,
        operations=[_operation_link(filter_, letter) for letter in OPERATIONS],
        words=filter_.sentence(),
        slots=[(name, list_url(filter_, slot=name)) for name in ("", *slot_names)]
        if slot_names
        else [],
    )
    if slot is not None and lines:
        page.lines = with_markers(lines, slot.pk, newest=page.at_newest)
    if not lines:
        page.nothing = _nothing_found(filter_, slot, complete=results.complete)
    return page


def _nothing_found(
    filter_: TransactionFilter, slot: Slot | None, *, complete: bool
) -> NothingFound:
    """Read what the record covers, which an empty list shows as an explanation."""
    session = reading_session()
    return NothingFound(
        unknown_tables=unknown_tables(session, filter_.tables, str(slot or "")),
        coverage=None if slot is None else coverage_of(session, slot),
        deleted_until=last_deleted_day(session),
        nearest=_nearest_before_start(filter_) if complete else None,
    )


def _operation_link(filter_: TransactionFilter, letter: str) -> OperationLink:
    shows_all = filter_.ops == OPERATIONS
    letters = "" if shows_all else filter_.ops
    switched = letters.replace(letter, "") if letter in letters else letters + letter
    return OperationLink(
        letter=letter,
        name=OPERATIONS_MANY[letter],
        on=letter in filter_.ops,
        url=list_url(
            filter_, ops="".join(operation for operation in OPERATIONS if operation in switched)
        ),
    )


def _nearest_before_start(filter_: TransactionFilter) -> TransactionLine | None:
    """Return the last transaction before the filter's start time that matches otherwise."""
    # Without a start time, the search has already covered everything before the end.
    if filter_.since_at is None:
        return None
    results = listing.find_transactions(
        reading_session(),
        replace(filter_, since="", until=filter_.since),
        limit=1,
        budget_seconds=_BUDGET_SECONDS,
    )
    lines = transaction_lines(results.rows, results.slots)
    return lines[0] if lines else None


@page(
    GET,
    role=VIEWER,
    nav=Nav(group="Browse", label="Transactions", icon="transactions", one_slot=True, tab=True),
    record=(Action.SEARCHED,),
)
def transactions(request: HttpRequest) -> HttpResponse:
    """Show the list of transactions, and record the search."""
    views = list(fleet_of(request).slots)
    if not views:
        description = "lists every stored transaction"
        return no_record(request, "Transactions", "No transactions yet.", description)
    name = request.GET.get("slot", "")
    slot = next((view.slot for view in views if str(view.slot) == name), None)
    if slot is None and name:
        raise Http404(f"there is no slot {name!r}")
    if slot is None and len(views) == 1:
        slot = views[0].slot
        # Set the header's scope to the only slot, even if the address does not name it.
        scope_to(request, slot)
    slot_names = sorted(str(view.slot) for view in views) if len(views) > 1 else []
    page = read_page(request.GET, slot, several=slot is None, slot_names=slot_names)
    searched_transactions(page.wanted, None if slot is None else slot.source_id)
    content = {"page": page, "saved": saved_filters(request, "transactions")}
    return render(request, "transactions/transactions.html", content)
