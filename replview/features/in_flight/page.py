"""All that the in-flight page shows at one moment, in a number of queries that does not grow."""

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
from replview.features.in_flight.filters import InFlightQuery
from replview.features.in_flight.rows import ElsewhereRow, EndedRow, InFlightRow, elsewhere_rows
from replview.health.holding import Holding, holding_of
from replview.health.open_transactions import OpenRow, touched_by
from replview.health.source_state import SourceState, pairs
from replview.store.models import Slot, SourceLook, Transaction
from replview.store.read.history import relation_names, transitions_of
from replview.ui.changes.stages import lifecycle_of

#: The rate is of the last so many seconds.
_WINDOW_SECONDS = 4.0
#: Two readings nearer than this tell no rate.
_LEAST_SECONDS = 0.7
#: A reading this old says nothing about now: nobody looked meanwhile.
_STALE_SECONDS = 15.0
#: A transaction nobody has looked at for so long is forgotten.
_FORGET_SECONDS = 60.0


class Rates:
    """Changes a second of each transaction; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def note(
        self, counts: Iterable[tuple[int, int]], now: float | None = None
    ) -> dict[int, float | None]:
        """Note how many changes each has by now; how many a second that makes, None: too early."""
        at = time.monotonic() if now is None else now
        rates: dict[int, float | None] = {}
        with self._lock:
            for identifier, changes in counts:
                readings = self._seen.setdefault(identifier, deque(maxlen=64))
                readings.append((at, changes))
                while len(readings) > 2 and at - readings[1][0] >= _WINDOW_SECONDS:
                    readings.popleft()
                if at - readings[0][0] > _STALE_SECONDS and len(readings) > 1:
                    readings.popleft()
                first_at, first = readings[0]
                elapsed = at - first_at
                known = elapsed >= _LEAST_SECONDS
                rates[identifier] = max(changes - first, 0) / elapsed if known else None
            self._seen = {
                identifier: readings
                for identifier, readings in self._seen.items()
                if at - readings[-1][0] <= _FORGET_SECONDS
            }
        return rates


#: Of this process.
rates = Rates()


#: Ended ones on the page itself; all are on a page of their own.
ENDED_ROWS = 20
ENDED_WINDOW = timedelta(days=1)
#: Ended ones on their own page.
ENDED_PAGE = 100
#: Slots whose holders are told beside the list.
_HOLDINGS = 12


@dataclass(slots=True, kw_only=True)
class Numbers:
    """Of all that are open in some view, drawn or not."""

    streaming: int = 0
    prepared: int = 0
    receiving: int = 0
    oldest: datetime | None = None
    #: Per source the one that holds most; transactions of one source hold the same WAL.
    held_wal_bytes: int | None = None

    @property
    def open(self) -> int:
        return self.streaming + self.prepared


@dataclass(slots=True, kw_only=True)
class Scope:
    """The slots in view, what their sources reported, and their present incarnations."""

    now: datetime
    slots: list[Slot]
    all_slots: list[Slot]
    source_states: dict[int, SourceState]

    @property
    def incarnations(self) -> list[int]:
        return [slot.incarnation_id for slot in self.slots if slot.incarnation_id is not None]

    @property
    def sent_late(self) -> list[str]:
        """Sources whose servers, before 14, send no transaction that is still open."""
        return sorted({slot.source.name for slot in self.slots
                       if (slot.source.server_version or 140000) < 140000})  # fmt: skip

    def source_state(self, slot: Slot) -> SourceState:
        return self.source_states[slot.source_id]

    def slot_of(self, row: Transaction) -> Slot:
        """The slot a transaction in view belongs to."""
        return next(slot for slot in self.slots if slot.incarnation_id == row.incarnation_id)


@dataclass(slots=True, kw_only=True)
class InFlight:
    """The page's content."""

    scope: Scope
    filters: InFlightQuery
    revision: str
    whole: Numbers
    numbers: Numbers
    streaming: list[InFlightRow] = field(default_factory=list)
    prepared: list[InFlightRow] = field(default_factory=list)
    elsewhere: list[ElsewhereRow] = field(default_factory=list)
    more_elsewhere: int = 0
    ended: list[EndedRow] = field(default_factory=list)
    more_ended: bool = False
    holdings: list[Holding] = field(default_factory=list)

    @property
    def more_streaming(self) -> int:
        return self.numbers.streaming + self.numbers.receiving - len(self.streaming)

    @property
    def more_prepared(self) -> int:
        return self.numbers.prepared - len(self.prepared)

    @property
    def rows(self) -> Iterable[InFlightRow]:
        return (*self.streaming, *self.prepared)


def read_scope(filters: InFlightQuery) -> Scope:
    """The slots in view; 404 where the address names one there is not."""
    now = timezone.now()
    rows = Slot.objects.exclude(desired=Slot.Desired.REMOVING)
    known = list(rows.select_related("source", "incarnation"))
    slots = [
        slot
        for slot in known
        if filters.source in ("", slot.source.name) and filters.slot in ("", str(slot))
    ]
    if not slots and (filters.source or filters.slot):
        raise Http404(f"there is no {filters.slot or filters.source!r}")
    sources = {slot.source_id for slot in slots}
    found = SourceLook.objects.in_bulk(sources)
    source_states = {source: SourceState(found.get(source), now) for source in sources}
    return Scope(now=now, slots=slots, all_slots=known, source_states=source_states)


def read_in_flight(filters: InFlightQuery, scope: Scope) -> InFlight:
    # Read first: what changes while the rest is read makes the next look differ.
    revision = store.revision()
    whole = filters.wanted(scope.incarnations, scope.now, whole=True)
    wanted = filters.wanted(scope.incarnations, scope.now)
    page = InFlight(
        scope=scope,
        filters=filters,
        revision=revision,
        whole=_numbers(store.open_totals(whole), scope),
        numbers=Numbers(),
    )
    page.numbers = _numbers(store.open_totals(wanted), scope) if filters.narrowed else page.whole
    _read_open(page, wanted)
    _read_elsewhere(page)
    _read_ended(page, wanted)
    worst_first = sorted(scope.slots, key=lambda slot: -_retained(scope, slot))
    page.holdings = [
        holding_of(slot, scope.source_state(slot), scope.now) for slot in worst_first[:_HOLDINGS]
    ]
    return page


def _numbers(totals: list[store.OpenTotal], scope: Scope) -> Numbers:
    numbers = Numbers()
    slots = {slot.incarnation_id: slot for slot in scope.slots}
    held: dict[int, int] = {}
    for total in totals:
        setattr(numbers, total.state, getattr(numbers, total.state) + total.count)
        if total.state != "receiving":
            numbers.oldest = min(numbers.oldest or total.oldest, total.oldest)
        slot = slots[total.incarnation_id]
        if total.first_lsn is not None and slot.server_lsn is not None:
            holds = max(int(slot.server_lsn) - int(total.first_lsn), 0)
            held[slot.source_id] = max(held.get(slot.source_id, 0), holds)
    numbers.held_wal_bytes = sum(held.values()) if held else None
    return numbers


def _retained(scope: Scope, slot: Slot) -> int:
    facts = scope.source_state(slot).slots.get(slot.name) or {}
    return facts.get("retained_wal_bytes") or 0


def _read_open(page: InFlight, wanted: store.OpenWanted) -> None:
    limit = page.filters.rows
    streaming = prepared = []
    if page.numbers.streaming or page.numbers.receiving:
        streaming = store.open_rows(wanted, prepared=False, limit=limit)
    if page.numbers.prepared:
        prepared = store.open_rows(wanted, prepared=True, limit=limit)
    made = in_flight_rows([*streaming, *prepared], page.scope)
    page.streaming, page.prepared = made[: len(streaming)], made[len(streaming) :]


def in_flight_rows(rows: list[Transaction], scope: Scope) -> list[InFlightRow]:
    """Open transactions as rows, in the same order."""
    names = relation_names(reading_session(), {int(key) for row in rows for key in row.relations})
    aborted = store.aborted_of(rows)
    made = []
    for row in rows:
        slot = scope.slot_of(row)
        source_state = scope.source_state(slot)
        tables, more = touched_by(row, names)
        made.append(
            InFlightRow(
                row=OpenRow(row, slot, scope.now),
                on_source=source_state.of(row),
                tables=tables,
                more_tables=more,
                aborted=aborted.get(row.pk),
                counters=source_state.slots.get(slot.name) or {},
            )
        )
    growing = [one for one in made if one.transaction.state != "prepared"]
    grown = rates.note((one.transaction.pk, one.row.received) for one in growing)
    for one in growing:
        one.rate = grown[one.transaction.pk]
    return made


def _read_elsewhere(page: InFlight) -> None:
    """Prepared on a source and in no record of ours, the oldest first."""
    scope, filters = page.scope, page.filters
    if filters.state == "streaming":
        return
    for source_id, source_state in scope.source_states.items():
        if not source_state.prepared or not source_state.fresh:
            continue
        # A slot that is out of view may have recorded it.
        slots = [slot for slot in scope.all_slots if slot.source_id == source_id]
        lifecycles = [slot.incarnation_id for slot in slots if slot.incarnation_id is not None]
        known = store.known_prepared(lifecycles, list(pairs(source_state)))
        unknown = [row for row in source_state.prepared if (row["gid"], row["xid"]) not in known]
        found = elsewhere_rows(slots[0].source, slots, unknown, source_state.slots, scope.now)
        text = filters.text.casefold()
        page.elsewhere += [
            row
            for row in found
            if row.age is not None
            and row.age.total_seconds() >= filters.older_seconds
            and (not text or text in row.gid.casefold() or text == str(row.xid))
        ]
    page.elsewhere.sort(key=lambda row: (row.prepared_at is None, row.prepared_at))
    page.more_elsewhere = max(len(page.elsewhere) - filters.rows, 0)
    page.elsewhere = page.elsewhere[: filters.rows]


def _read_ended(page: InFlight, wanted: store.OpenWanted) -> None:
    since = page.scope.now - ENDED_WINDOW
    rows = store.ended_rows(wanted, limit=ENDED_ROWS + 1, since=since)
    page.more_ended = len(rows) > ENDED_ROWS
    page.ended = ended_rows(rows[:ENDED_ROWS], page.scope)


def ended_rows(rows: list[Transaction], scope: Scope) -> list[EndedRow]:
    """Ended transactions with their incarnations, in the same order."""
    lifecycles = transitions_of(reading_session(), [row.pk for row in rows])
    return [
        EndedRow(
            transaction=row,
            slot=scope.slot_of(row),
            lifecycle=lifecycle_of(row, lifecycles.get(row.pk, ()), scope.now),
        )
        for row in rows
    ]
