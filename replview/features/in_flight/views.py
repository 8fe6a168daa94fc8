"""Views of in-flight transactions: streaming, prepared, unrecorded, and how others ended."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from replview.access.page import GET, ROWS, VIEWER, Nav, page
from replview.access.visibility import reading_session
from replview.features.in_flight import queries as store
from replview.features.in_flight.filters import InFlightQuery
from replview.features.in_flight.page import (
    ENDED_PAGE,
    InFlight,
    InFlightScope,
    ended_rows,
    in_flight_rows,
    read_in_flight,
    read_scope,
)
from replview.features.in_flight.rows import EndedRow, InFlightRow
from replview.features.in_flight.text import (
    InFlightHeadline,
    database_of,
    ends_of_session,
    sentence_of,
    work_mem_words,
)
from replview.health.holding import vacuum_holder
from replview.health.holding_rows import Holding, holding_of
from replview.health.open_transactions import (
    Touched,
    TransactionStatement,
    ends_of_prepared,
    touched_by,
)
from replview.health.source_state import SourceState
from replview.store.models import Slot, SlotIncarnation, Source, Transaction
from replview.store.read.history import HIDDEN_STATES, OPEN_STATES, relation_names, transitions_of
from replview.text.formats import bytes_words, count_words, plural
from replview.ui.changes.drawer import changes_page, find_transaction, read_slot, received_anew
from replview.ui.changes.stages import LifecycleDrawing, lifecycle_of
from replview.ui.page_fields import named_fields


@dataclass(slots=True, kw_only=True)
class Blocked:
    """The effects of an open transaction on vacuum and other sessions."""

    vacuum: str = ""
    #: A sentence about what holds back vacuum even further.
    older: str = ""
    #: Number of waiting sessions; None if the source's role may not see them.
    sessions: int | None = None


@dataclass(slots=True, kw_only=True)
class Chosen:
    """A transaction as the drawer shows it; either ``open`` or ``ended`` is set."""

    transaction: Transaction
    slot: Slot
    lifecycle: LifecycleDrawing | None
    open: InFlightRow | None = None
    ended: EndedRow | None = None
    tables: list[Touched] = field(default_factory=list)
    blocked: Blocked | None = None
    statements: tuple[TransactionStatement, ...] = ()
    database: str = ""
    holding: Holding | None = None
    #: False when the transaction's changes were deleted because it was rolled back.
    kept: bool = True

    @property
    def session(self) -> dict[str, Any]:
        """Return the session that runs the transaction, as sampled; empty if unknown."""
        session = (self.open.on_source.found if self.open else None) or {}
        return session if "pid" in session else {}

    @property
    def owner(self) -> str:
        """Return the role that prepared or runs the transaction; empty if unknown."""
        session = (self.open.on_source.found if self.open else None) or {}
        return str(session.get("owner") or session.get("role") or "")

    @property
    def limit_words(self) -> str:
        """Return ``max_slot_wal_keep_size`` of the source in words."""
        limit = self.slot.source.max_slot_wal_keep_bytes
        if limit is None:
            return "limit unknown"
        return "no limit set" if limit < 0 else f"of {bytes_words(limit)} at most"


def read_chosen(identifier: int | None, scope: InFlightScope) -> Chosen | None:
    """Return the transaction, or the one that replaced it; None if there is none."""
    if identifier is None:
        return None
    transactions = Transaction.objects.exclude(state__in=HIDDEN_STATES)
    transaction = transactions.filter(pk=identifier).first()
    if transaction is None and (replacement_id := received_anew(identifier)[0]) is not None:
        transaction = transactions.filter(pk=replacement_id).first()
    if transaction is None:
        return None
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(
        pk=transaction.incarnation_id
    )
    chosen = Chosen(transaction=transaction, slot=incarnation.slot, lifecycle=None)
    transitions = transitions_of(reading_session(), [transaction.pk]).get(transaction.pk, ())
    chosen.lifecycle = lifecycle_of(transaction, transitions, scope.now)
    names = relation_names(reading_session(), {int(key) for key in transaction.relations})
    chosen.tables, _ = touched_by(transaction, names, shown=50)
    if transaction.state in OPEN_STATES and transaction.incarnation_id not in scope.incarnations:
        scope = read_scope(InFlightQuery())  # its slot is not in the filtered scope
    if transaction.state in OPEN_STATES and transaction.incarnation_id in scope.incarnations:
        _read_open(chosen, scope)
    else:
        chosen.ended = EndedRow(
            transaction=transaction, slot=chosen.slot, lifecycle=chosen.lifecycle
        )
        chosen.kept = store.changes_are_kept(transaction, chosen.slot)
    return chosen


def _read_open(chosen: Chosen, scope: InFlightScope) -> None:
    transaction, source_state = chosen.transaction, scope.source_state(chosen.slot)
    [open_row] = in_flight_rows([transaction], scope)
    chosen.open = open_row
    chosen.database = database_of(open_row)
    chosen.holding = holding_of(chosen.slot, source_state, scope.now)
    chosen.blocked = _blocked(chosen, source_state)
    session = open_row.on_source.found or {}
    if transaction.state == "prepared" and transaction.gid and open_row.on_source.word != "gone":
        chosen.statements = ends_of_prepared(transaction.gid, plural(transaction.changes, "change"))
    elif "gid" in session:
        chosen.statements = ends_of_prepared(str(session["gid"]), "changes")
    elif chosen.session:
        chosen.statements = ends_of_session(transaction, chosen.session)


def _blocked(chosen: Chosen, source_state: SourceState) -> Blocked | None:
    """Return what the transaction blocks, as the source reported it; None if it is gone."""
    assert chosen.open is not None
    if chosen.open.on_source.word == "gone" or chosen.transaction.state == "receiving":
        return None
    xid = chosen.transaction.xid
    age = source_state.age_of(xid)
    blocked = Blocked(sessions=source_state.waiting_for(xid) if source_state.fresh else None)
    if age is not None and source_state.fresh:
        blocked.vacuum = f"rows deleted in the last {plural(age, 'transaction')} stay"
        holder = vacuum_holder(source_state)
        # A transaction's snapshot is a little older than its xid, so ignore small differences.
        if holder is not None and holder.oldest > age * 1.2 + 10:
            kind = {"running": "the session "}.get(holder.kind, f"the {holder.kind} ")
            kind = "" if holder.kind == "prepared" else kind
            blocked.older = f"{kind}{holder.name} keeps still more: {count_words(holder.oldest)}"
    return blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChoice:
    """A source in the page's menu, with the slots that replview receives from it."""

    name: str
    url: str
    #: True when the page shows this source with all of its slots.
    current: bool
    #: ``(name, address, chosen)``.
    slots: list[tuple[str, str, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightPage:
    """The page of in-flight transactions, with the transaction in its drawer."""

    content: InFlight
    filters: InFlightQuery
    sentence: InFlightHeadline
    #: ``logical_decoding_work_mem`` of the sources in words; empty where it is unknown.
    work_mem: str
    #: When a source in view was last sampled; None if none was.
    looked_at: datetime | None
    sources: list[SourceChoice]
    #: The transaction in the address; None if there is none, or if it is gone.
    chosen: Chosen | None
    #: True when the address names a transaction that is no longer stored.
    gone: bool
    #: When the address's transaction, which was only partly received, was discarded.
    discarded_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPage:
    """One page of the list of all ended transactions, the newest first."""

    filters: InFlightQuery
    ended: list[EndedRow]
    #: True for the first page of the list.
    first: bool
    #: The cursor of the next page; None on the last one.
    older: str | None
    page_rows: int = ENDED_PAGE


def build_page(filters: InFlightQuery) -> InFlightPage:
    """Read the in-flight transactions, and the transaction in the drawer."""
    scope = read_scope(filters)
    content = read_in_flight(filters, scope)
    chosen = read_chosen(filters.chosen, scope)
    gone = filters.chosen is not None and chosen is None
    looked_at = [state.looked_at for state in scope.source_states.values() if state.looked_at]
    return InFlightPage(
        content=content,
        filters=filters,
        sentence=sentence_of(content),
        work_mem=work_mem_words(scope),
        looked_at=max(looked_at, default=None),
        sources=_source_choices(content),
        chosen=chosen,
        gone=gone,
        discarded_at=received_anew(filters.chosen)[1]
        if gone and filters.chosen is not None
        else None,
    )


def build_ended_page(filters: InFlightQuery, before: tuple[datetime, int] | None) -> EndedPage:
    """Read one page of ended transactions, beginning after ``before``."""
    scope = read_scope(filters)
    selection = filters.wanted(scope.incarnations, scope.now)
    rows = store.ended_rows(selection, limit=ENDED_PAGE + 1, before=before)
    shown = rows[:ENDED_PAGE]
    return EndedPage(
        filters=filters,
        ended=ended_rows(shown, scope),
        first=before is None,
        older=_format_cursor(shown[-1].stored_at, shown[-1].pk) if len(rows) > ENDED_PAGE else None,
    )


def _source_choices(content: InFlight) -> list[SourceChoice]:
    filters = content.filters
    choices = {
        name: SourceChoice(
            name=name,
            url=filters.url(source=name, slot="", rows="", tx=""),
            current=filters.source == name and not filters.slot,
        )
        for name in Source.objects.values_list("name", flat=True)
    }
    for slot in content.scope.all_slots:
        url = filters.url(source="", slot=str(slot), rows="", tx="")
        choices[slot.source.name].slots.append((slot.name, url, str(slot) == filters.slot))
    return list(choices.values())


def _format_cursor(stored_at: datetime | None, identifier: int) -> str:
    assert stored_at is not None
    return f"{stored_at.timestamp() * 1e6:.0f}-{identifier}"


@page(
    GET,
    role=VIEWER,
    nav=Nav(group="Watch", label="In flight", icon="flight", count="open", tab=True),
    record=ROWS,
)
def in_flight(request: HttpRequest) -> HttpResponse:
    """Show the whole page, with the drawer of the transaction in its address."""
    page = build_page(InFlightQuery.from_words(request.GET))
    drawer = {} if page.chosen is None else _first_changes(page.chosen)
    return render(request, "in_flight/in_flight.html", {**named_fields(page), **drawer})


@page(GET, role=VIEWER, polled=True)
def now(request: HttpRequest) -> HttpResponse:
    """Return the parts that change, or 204 while ``seen`` is the present revision."""
    if request.GET.get("seen", "") == store.revision():
        return HttpResponse(status=204)
    page = build_page(InFlightQuery.from_words(request.GET))
    return render(request, "in_flight/now.html", named_fields(page))


@page(GET, role=VIEWER, of={"transaction_id": None}, record=ROWS)
def drawer(request: HttpRequest, transaction_id: int) -> HttpResponse:
    """Show one transaction in the drawer."""
    scope = read_scope(InFlightQuery())
    chosen = read_chosen(transaction_id, scope)
    if chosen is None:
        raise Http404("there is no such transaction, or it was received again")
    filters = InFlightQuery.from_words(request.GET)
    context = {"filters": filters, "chosen": chosen, **_first_changes(chosen)}
    return render(request, "in_flight/_drawer.html", context)


@page(GET, role=VIEWER, nav="in-flight")
def ended(request: HttpRequest) -> HttpResponse:
    """List all ended transactions, the newest first."""
    page = build_ended_page(
        InFlightQuery.from_words(request.GET), _parse_cursor(request.GET.get("before", ""))
    )
    return render(request, "in_flight/ended.html", named_fields(page))


def _first_changes(chosen: Chosen) -> dict[str, object]:
    """Return the first changes of the transaction in the drawer."""
    row = find_transaction(chosen.transaction.pk)
    return named_fields(changes_page(row, read_slot(row)))


def _parse_cursor(cursor: str) -> tuple[datetime, int] | None:
    """Parse a cursor of the list of ended transactions; an invalid one means the beginning."""
    stored_us, _, identifier = cursor.partition("-")
    if not (
        stored_us.isdigit()
        and identifier.isdigit()
        and len(stored_us) < 18
        and len(identifier) < 19
    ):
        return None
    seconds, microseconds = divmod(int(stored_us), 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)
    return moment, int(identifier)
