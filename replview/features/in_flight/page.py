"""The contents of the in-flight page, read in a fixed number of queries."""

import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.http import Http404
from django.utils import timezone

from replview.access.visibility import reading_session
from replview.features.in_flight import queries as store
from replview.features.in_flight.filters import ROWS, InFlightQuery
from replview.features.in_flight.rows import EndedRow, InFlightRow, OnSourceRow, why_unrecorded
from replview.health.holding import all_holders
from replview.health.holding_rows import Holding, holding_of
from replview.health.open_transactions import OpenRow, touched_by
from replview.health.source_state import SourceState, stale_after
from replview.store.models import Slot, Source, SourceLook, Transaction
from replview.store.read.history import relation_names, transitions_of
from replview.store.same_server import is_seen, one_a_server, recorded_elsewhere
from replview.ui.changes.stages import lifecycle_of

#: Seconds over which a rate is measured.
_WINDOW_SECONDS = 4.0
#: Minimum seconds between two readings that give a rate.
_MIN_READING_SECONDS = 0.7
#: Age in seconds of a reading that is too old for a rate.
_STALE_SECONDS = 15.0
#: Seconds without a reading after which a transaction is forgotten.
_FORGET_SECONDS = 60.0
#: Ended transactions on the in-flight page; another page lists all of them.
ENDED_ROWS = 20
ENDED_WINDOW = timedelta(days=1)
#: Ended transactions on each page of their own list.
ENDED_PAGE = 100
#: Maximum number of slots for which the page lists what holds their WAL.
_HOLDINGS_SHOWN = 12


class ChangeRates:
    """The changes per second of each open transaction; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def note(
        self, counts: Iterable[tuple[int, int]], now: float | None = None
    ) -> dict[int, float | None]:
        """Note the transactions' change counts; return changes per second, None if too early."""
        moment = time.monotonic() if now is None else now
        rates: dict[int, float | None] = {}
        with self._lock:
            for identifier, changes in counts:
                readings = self._seen.setdefault(identifier, deque(maxlen=64))
                readings.append((moment, changes))
                while len(readings) > 2 and moment - readings[1][0] >= _WINDOW_SECONDS:
                    readings.popleft()
                if moment - readings[0][0] > _STALE_SECONDS and len(readings) > 1:
                    readings.popleft()
                first_at, first = readings[0]
                elapsed = moment - first_at
                measurable = elapsed >= _MIN_READING_SECONDS
                rates[identifier] = max(changes - first, 0) / elapsed if measurable else None
            self._seen = {
                identifier: readings
                for identifier, readings in self._seen.items()
                if moment - readings[-1][0] <= _FORGET_SECONDS
            }
        return rates


#: The rates that this process has measured.
rates = ChangeRates()


@dataclass(slots=True, kw_only=True)
class Numbers:
    """Numbers of all open transactions in view, including rows that are not drawn."""

    streaming: int = 0
    prepared: int = 0
    receiving: int = 0
    oldest: datetime | None = None
    #: Sum over the sources of the most WAL that one transaction holds there; transactions of one
    #: source hold the same WAL.
    held_wal_bytes: int | None = None

    @property
    def open(self) -> int:
        """Return the number of streaming and prepared transactions."""
        return self.streaming + self.prepared


@dataclass(slots=True, kw_only=True)
class InFlightScope:
    """The slots and sources in view, with the last samples of the sources."""

    now: datetime
    slots: list[Slot]
    all_slots: list[Slot]
    #: Includes sources without a slot that replview receives.
    sources: list[Source]
    looks: dict[int, SourceLook]
    source_states: dict[int, SourceState]

    @property
    def incarnations(self) -> list[int]:
        """Return the ids of the slots' present incarnations."""
        return [slot.incarnation_id for slot in self.slots if slot.incarnation_id is not None]

    @property
    def sent_late(self) -> list[str]:
        """Return sources before PostgreSQL 14, which send no transaction before its commit."""
        return sorted({slot.source.name for slot in self.slots
                       if (slot.source.server_version or 140000) < 140000})  # fmt: skip

    def source_state(self, slot: Slot) -> SourceState:
        """Return the last sampled state of the slot's source."""
        return self.source_states[slot.source_id]

    def slot_of(self, row: Transaction) -> Slot:
        """Return the slot of the transaction."""
        return next(slot for slot in self.slots if slot.incarnation_id == row.incarnation_id)


@dataclass(slots=True, kw_only=True)
class InFlight:
    """Everything that the in-flight page shows at one moment."""

    scope: InFlightScope
    filters: InFlightQuery
    revision: str
    whole: Numbers
    numbers: Numbers
    streaming: list[InFlightRow] = field(default_factory=list)
    prepared: list[InFlightRow] = field(default_factory=list)
    on_source: list[OnSourceRow] = field(default_factory=list)
    more_on_source: int = 0
    looked: list[tuple[Source, SourceState]] = field(default_factory=list)
    #: Transactions prepared on a source that no slot has recorded, the oldest first.
    elsewhere: list[OnSourceRow] = field(default_factory=list)
    ended: list[EndedRow] = field(default_factory=list)
    more_ended: bool = False
    holdings: list[Holding] = field(default_factory=list)

    @property
    def more_streaming(self) -> int:
        """Return the number of streaming transactions that are not listed."""
        return self.numbers.streaming + self.numbers.receiving - len(self.streaming)

    @property
    def more_prepared(self) -> int:
        """Return the number of prepared transactions that are not listed."""
        return self.numbers.prepared - len(self.prepared)

    @property
    def rows(self) -> Iterable[InFlightRow]:
        """Return all listed open transactions."""
        return (*self.streaming, *self.prepared)


def read_scope(filters: InFlightQuery) -> InFlightScope:
    """Return the slots in view. Raises ``Http404`` for an unknown source or slot."""
    now = timezone.now()
    query = Slot.objects.exclude(desired=Slot.Desired.REMOVING)
    all_slots = list(query.select_related("source", "incarnation"))
    slots = [
        slot
        for slot in all_slots
        if filters.source in ("", slot.source.name) and filters.slot in ("", str(slot))
    ]
    sources = [source for source in Source.objects.all() if filters.source in ("", source.name)]
    if filters.slot:
        sources = [slot.source for slot in slots]
    if not sources and (filters.source or filters.slot):
        raise Http404(f"there is no {filters.slot or filters.source!r}")
    looks = SourceLook.objects.in_bulk([source.pk for source in sources])
    fresh = stale_after()
    states = {source.pk: SourceState(looks.get(source.pk), now, fresh) for source in sources}
    return InFlightScope(now=now, slots=slots, all_slots=all_slots, sources=sources, looks=looks,
                         source_states=states)  # fmt: skip


def read_in_flight(filters: InFlightQuery, scope: InFlightScope) -> InFlight:
    """Read everything that the page shows."""
    # Read the revision first, so that a change during the read shows as a new revision later.
    revision = store.revision()
    unfiltered = filters.wanted(scope.incarnations, scope.now, whole=True)
    selection = filters.wanted(scope.incarnations, scope.now)
    page = InFlight(
        scope=scope,
        filters=filters,
        revision=revision,
        whole=_numbers(store.open_totals(unfiltered), scope),
        numbers=Numbers(),
    )
    page.numbers = _numbers(store.open_totals(selection), scope) if filters.narrowed else page.whole
    _read_open(page, selection)
    _read_on_source(page)
    _read_ended(page, selection)
    worst_first = sorted(scope.slots, key=lambda slot: -_retained_bytes(scope, slot))
    page.holdings = [
        holding_of(slot, scope.source_state(slot), scope.now)
        for slot in worst_first[:_HOLDINGS_SHOWN]
    ]
    return page


def _numbers(totals: list[store.OpenTotal], scope: InFlightScope) -> Numbers:
    numbers = Numbers()
    slots = {slot.incarnation_id: slot for slot in scope.slots}
    held_by_source: dict[int, int] = {}
    for total in totals:
        setattr(numbers, total.state, getattr(numbers, total.state) + total.count)
        if total.state != "receiving":
            numbers.oldest = min(numbers.oldest or total.oldest, total.oldest)
        slot = slots[total.incarnation_id]
        if total.first_lsn is not None and slot.server_lsn is not None:
            held_bytes = max(int(slot.server_lsn) - int(total.first_lsn), 0)
            held_by_source[slot.source_id] = max(held_by_source.get(slot.source_id, 0), held_bytes)
    numbers.held_wal_bytes = sum(held_by_source.values()) if held_by_source else None
    return numbers


def _retained_bytes(scope: InFlightScope, slot: Slot) -> int:
    facts = scope.source_state(slot).slots.get(slot.name) or {}
    return facts.get("retained_wal_bytes") or 0


def _read_open(page: InFlight, selection: store.OpenWanted) -> None:
    limit = page.filters.rows
    streaming = prepared = []
    if page.numbers.streaming or page.numbers.receiving:
        streaming = store.open_rows(selection, prepared=False, limit=limit)
    if page.numbers.prepared:
        prepared = store.open_rows(selection, prepared=True, limit=limit)
    rows = in_flight_rows([*streaming, *prepared], page.scope)
    page.streaming, page.prepared = rows[: len(streaming)], rows[len(streaming) :]


def in_flight_rows(transactions: list[Transaction], scope: InFlightScope) -> list[InFlightRow]:
    """Return open transactions as rows, in the same order."""
    names = relation_names(
        reading_session(),
        {int(key) for transaction in transactions for key in transaction.relations},
    )
    aborted = store.aborted_of(transactions)
    rows = []
    for transaction in transactions:
        slot = scope.slot_of(transaction)
        source_state = scope.source_state(slot)
        tables, more_tables = touched_by(transaction, names)
        rows.append(
            InFlightRow(
                row=OpenRow(transaction, slot, scope.now),
                on_source=source_state.of(transaction),
                tables=tables,
                more_tables=more_tables,
                aborted=aborted.get(transaction.pk),
                counters=source_state.slots.get(slot.name) or {},
            )
        )
    growing = [row for row in rows if row.transaction.state != "prepared"]
    rate_by_id = rates.note((row.transaction.pk, row.transaction.received) for row in growing)
    for row in growing:
        row.rate = rate_by_id[row.transaction.pk]
    return rows


def _read_on_source(page: InFlight) -> None:
    """Read what is open on the sources in view, once per server, oldest xid or snapshot first."""
    scope, filters = page.scope, page.filters
    for source in one_a_server(scope.sources, scope.looks):
        state = scope.source_states[source.pk]
        page.looked.append((source, state))
        rows = _rows_on_source(source, state, scope) if state.fresh else []
        page.on_source += [
            row for row in rows if row.passes(filters.state, filters.older_seconds, filters.text)
        ]
    page.on_source.sort(key=lambda row: -row.holder.oldest)
    page.elsewhere = [row for row in page.on_source if row.elsewhere]
    page.elsewhere.sort(key=lambda row: (row.holder.since is None, row.holder.since))
    limit = 20 if filters.rows == ROWS else filters.rows  # few, until the user asks for more
    page.more_on_source = max(len(page.on_source) - limit, 0)
    page.on_source = page.on_source[:limit]


def _rows_on_source(source: Source, state: SourceState, scope: InFlightScope) -> list[OnSourceRow]:
    """Return what is open on the source, with the recording slot or why there is none."""
    # A slot out of view may have recorded them, also through another source of the server.
    slots = [slot for slot in scope.all_slots if slot.source_id == source.pk]
    slots += recorded_elsewhere(source).values()
    by_incarnation = {slot.incarnation_id: slot for slot in slots if slot.incarnation_id}
    databases = {(state.slots.get(slot.name) or {}).get("database") for slot in slots}
    holders = list(all_holders(state))
    recorded = store.recorded(
        list(by_incarnation),
        [holder.name for holder in holders if holder.kind == "prepared"],
        [holder.xid for holder in holders if holder.kind == "running" and holder.xid],
    )
    rows = []
    for holder in holders:
        row = OnSourceRow(source=source, holder=holder, logical=state.logical_slots, now=scope.now)
        gid = holder.name if holder.kind == "prepared" else None
        if record := recorded.get((gid, holder.xid or 0)):
            row.slot = by_incarnation[record[1]]
            row.transaction = record[0] if is_seen(row.slot) else None
        else:
            row.why = why_unrecorded(holder, databases)
        rows.append(row)
    return rows


def _read_ended(page: InFlight, selection: store.OpenWanted) -> None:
    since = page.scope.now - ENDED_WINDOW
    rows = store.ended_rows(selection, limit=ENDED_ROWS + 1, since=since)
    page.more_ended = len(rows) > ENDED_ROWS
    page.ended = ended_rows(rows[:ENDED_ROWS], page.scope)


def ended_rows(rows: list[Transaction], scope: InFlightScope) -> list[EndedRow]:
    """Return ended transactions with their lifecycles, in the same order."""
    lifecycles = transitions_of(reading_session(), [row.pk for row in rows])
    return [
        EndedRow(
            transaction=row,
            slot=scope.slot_of(row),
            lifecycle=lifecycle_of(row, lifecycles.get(row.pk, ()), scope.now),
        )
        for row in rows
    ]
