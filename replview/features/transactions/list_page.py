"""The list of transactions, with its filters as links and menus."""

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from replview.access.page import GET, VIEWER, Action, Nav, page
from replview.access.visibility import reading_session
from replview.features.transactions.search import matching_transactions
from replview.store.fields import LSN
from replview.store.models import Slot
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.days import last_deleted_day
from replview.store.read.table_names import unknown_tables
from replview.store.read.transactions import listing
from replview.store.read.transactions.transaction_filter import (
    OPERATIONS,
    TransactionFilter,
    read_time,
)
from replview.store.write.search_record import searched_transactions
from replview.text.parsing import table_word
from replview.ui.changes.transaction_lines import (
    MarkerLine,
    TransactionLine,
    transaction_lines,
    with_markers,
)
from replview.ui.component_html import OPERATIONS_MANY
from replview.ui.filters import filter_text
from replview.ui.params import Params, scope_to
from replview.ui.saved_filters import saved_filters
from replview.ui.shell import fleet_of, no_record

#: Rows of a page.
PAGE_ROWS = 50
#: Time limit of a page's search.
_BUDGET_SECONDS = 0.5
_TABLES_LIMIT = 500
#: Query parameters that may be repeated (checkboxes) and form one list.
_LISTS = ("tables", "states")
STATES = (
    "streaming", "prepared", "committed", "message", "aborted", "rolled back", "skipped",
    "snapshot", "unknown",
)  # fmt: skip
#: Filters that the menu *More* holds.
MORE_WORDS = (
    "since", "until", "from_lsn", "to_lsn", "min_changes", "min_bytes", "prepared_min", "id",
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
    more_set: int = 0
    #: None unless the list is empty.
    nothing: NothingFound | None = None
    #: Name and address of each slot to choose, *all* first; empty if there is one slot.
    slots: list[tuple[str, str]] = field(default_factory=list)
    states: tuple[str, ...] = STATES

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


def wanted_of(words: QueryDict) -> TransactionFilter:
    """Read the filter from the query parameters."""
    read: dict[str, Any] = {name: words.get(name) for name in words}
    return TransactionFilter.from_words(
        read | {name: ",".join(words.getlist(name)) for name in _LISTS if name in words}
    )


def list_url(wanted: TransactionFilter, **changes: str) -> str:
    """Return the list's address, such as ``/transactions/?slot=shop/replview&actor=alice``."""
    words = {name: word for name, word in (wanted.words() | changes).items() if word}
    query = urlencode(words, safe="/,")
    return f"{reverse('transactions')}{'?' if query else ''}{query}"


def place_of(words: Mapping[str, object], slot: str) -> ListPosition:
    """Return the place of a cursor or of a jump target, else the newest transaction."""
    text = str(words.get("cursor") or "")
    if text == "first":
        return ListPosition(
            cursor=listing.cursor_at_beginning(reading_session(), slot), backwards=True
        )
    if text:
        try:
            return ListPosition(
                cursor=listing.ListCursor.parse(text), backwards=bool(words.get("back"))
            )
        except ValueError:
            return ListPosition()
    at = Params(words).text("at")
    return _jump(at, slot) if at else ListPosition()


def _jump(at: str, slot: str) -> ListPosition:
    """Return the place of a time, of an LSN, or of a transaction by its xid or gid."""
    if not at.isdigit() and (moment := read_time(at)) is not None:
        return ListPosition(cursor=listing.cursor_at_time(reading_session(), moment, slot), at=at)
    with suppress(ValueError):
        cursor = listing.cursor_at_lsn(reading_session(), LSN.parse(at), slot)
        return ListPosition(cursor=cursor, at=at, choose_first=True)
    row = next(iter(matching_transactions(at, slot)), None)
    if row is None:
        return ListPosition(at=at, found=False)
    moment = row.commit_time or row.ended_at or row.stored_at or row.received_at
    cursor = listing.cursor_at_time(reading_session(), moment, slot)
    if row.commit_seq is not None:
        cursor.seqs[row.incarnation_id] = row.commit_seq + 1
    elif row.stored_at is not None:
        cursor.ended[row.incarnation_id] = (row.stored_at, row.pk + 1)
    return ListPosition(cursor=cursor, at=at, chosen=row.pk)


def read_page(
    words: QueryDict, slot: Slot | None, several: bool, names: Sequence[str] = ()
) -> TransactionsPage:
    """Read the page; ``names`` are the slots to choose from, if there are several."""
    wanted = wanted_of(words)
    place = place_of(words, wanted.slot)
    found = listing.find_transactions(
        reading_session(),
        wanted,
        cursor=place.cursor,
        backwards=place.backwards,
        limit=PAGE_ROWS,
        budget_seconds=_BUDGET_SECONDS,
        tables_most=_TABLES_LIMIT,
    )
    if place.choose_first and found.rows:
        place.chosen = found.rows[0].id
    lines = transaction_lines(found.rows, found.slots, found.tables, place.chosen)
    page = TransactionsPage(
        wanted=wanted,
        place=place,
        slot=slot,
        lines=[*lines],
        found=found,
        tables=sorted({table_word(*name) for name in found.tables.values()} | {*wanted.tables}),
        several=several,
        operations=[_operation(wanted, letter) for letter in OPERATIONS],
        words=filter_text(wanted),
        more_set=sum(1 for name in MORE_WORDS if wanted.words().get(name)),
        slots=[(name, list_url(wanted, slot=name)) for name in ("", *names)] if names else [],
    )
    if slot is not None and lines:
        page.lines = with_markers(lines, slot.pk, newest=page.at_newest)
    if not lines:
        page.nothing = _nothing_found(wanted, slot, complete=found.complete)
    return page


def _nothing_found(wanted: TransactionFilter, slot: Slot | None, *, complete: bool) -> NothingFound:
    """Read what the record covers, which an empty list shows as an explanation."""
    session = reading_session()
    return NothingFound(
        unknown_tables=unknown_tables(session, wanted.tables, str(slot or "")),
        coverage=None if slot is None else coverage_of(session, slot),
        deleted_until=last_deleted_day(session),
        nearest=_nearest(wanted) if complete else None,
    )


def _operation(wanted: TransactionFilter, letter: str) -> OperationLink:
    everything = wanted.ops == OPERATIONS
    chosen = "" if everything else wanted.ops
    turned = chosen.replace(letter, "") if letter in chosen else chosen + letter
    return OperationLink(
        letter=letter,
        name=OPERATIONS_MANY[letter],
        on=letter in wanted.ops,
        url=list_url(wanted, ops="".join(one for one in OPERATIONS if one in turned)),
    )


def _nearest(wanted: TransactionFilter) -> TransactionLine | None:
    """Return the last transaction before the filter's start time that matches otherwise."""
    # Without a start time, the search has already covered everything before the end.
    if wanted.since_at is None:
        return None
    found = listing.find_transactions(
        reading_session(),
        replace(wanted, since="", until=wanted.since),
        limit=1,
        budget_seconds=_BUDGET_SECONDS,
    )
    lines = transaction_lines(found.rows, found.slots)
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
        does = "lists every stored transaction"
        return no_record(request, "Transactions", "No transactions yet.", does)
    name = request.GET.get("slot", "")
    slot = next((view.slot for view in views if str(view.slot) == name), None)
    if slot is None and name:
        raise Http404(f"there is no slot {name!r}")
    if slot is None and len(views) == 1:
        slot = views[0].slot
        # Set the header's scope to the only slot, even if the address does not name it.
        scope_to(request, slot)
    names = sorted(str(view.slot) for view in views) if len(views) > 1 else []
    page = read_page(request.GET, slot, several=slot is None, names=names)
    searched_transactions(page.wanted, None if slot is None else slot.source_id)
    content = {"page": page, "saved": saved_filters(request, "transactions")}
    return render(request, "transactions/transactions.html", content)
