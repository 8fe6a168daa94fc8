"""This module reads every slot of every source as its server last reported it, in one query."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from urllib.parse import quote

from django.db.models import Q
from django.urls import reverse

from replview.health.conditions import xmin_age
from replview.health.findings_wal import held_by_other
from replview.health.findings_watched import watched_health
from replview.health.holding import Cause, cause_of
from replview.health.queries import SlotRates
from replview.health.server_slot import ServerSlot, server_slot
from replview.health.source_state import SourceState
from replview.health.states import Health, Level, SlotReading, urgency
from replview.store.models import Slot, Source, SourceLook, WatchedSlot
from replview.store.models.seen import only_of, seen_sources
from replview.store.same_server import server_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherView:
    """A slot that replview only watches, with its reading and its health."""

    #: The id of its samples.
    watched_id: int
    server: ServerSlot
    reading: SlotReading
    health: Health

    @property
    def name(self) -> str:
        """Return the slot's name without its source."""
        return self.server.name

    @property
    def full_name(self) -> str:
        """Return ``source/slot``."""
        return f"{self.server.source.name}/{self.server.name}"

    @property
    def url(self) -> str:
        """Return the address of the slot's page."""
        return reverse("slot", args=[self.server.source.name, self.server.name])

    @property
    def level(self) -> Level:
        """Return the level of the slot's health."""
        return self.health.level

    @property
    def lost(self) -> str:
        """Return why the slot can never be read again; empty where it can."""
        return self.reading.lost

    @property
    def present_known(self) -> bool:
        """Return whether the facts are recent enough to describe the present."""
        return self.health.level != Level.UNKNOWN or self.reading.retained_wal_bytes is not None

    @property
    def retained_wal_bytes(self) -> int | None:
        """Return the WAL retained now; None when it is unknown, or the slot is lost."""
        return self.reading.retained_wal_bytes

    @property
    def query(self) -> str:
        """Return the query string for addresses that take ``slot=``."""
        return f"slot={quote(self.full_name, safe='/')}"


@dataclass(slots=True)
class Watched:
    """All slots that servers reported.

    ``ours`` are by ``Slot.pk``, ``paces`` by the id of the samples, ``others`` by ``Source.pk``,
    worst first.
    """

    ours: dict[int, ServerSlot] = field(default_factory=dict)
    paces: dict[int, SlotRates] = field(default_factory=dict)
    others: dict[int, list[OtherView]] = field(default_factory=dict)


class Causes:
    """The causes that hold slots back; samples of sources are read once, and only if needed."""

    def __init__(self, now: datetime, stale_after: timedelta) -> None:
        self._now = now
        self.stale_after = stale_after

    @cached_property
    def _looks(self) -> dict[int, SourceLook]:
        return SourceLook.objects.in_bulk()

    def of(
        self, server: ServerSlot | None, reading: SlotReading, slot: Slot | None
    ) -> Cause | None:
        """Return what holds the slot back; None: its reader, or nothing."""
        if server is None or not held_by_other(server.source, reading, slot):
            return None
        state = SourceState(self._looks.get(server.source.pk), self._now, self.stale_after)
        return cause_of(server, state, self._now, slot)


def read_watched(
    sources: Mapping[int, Source], paces: Mapping[int, SlotRates], now: datetime, causes: Causes
) -> Watched:
    """Return all slots that are on their servers, and also our own slots that are gone.

    ``paces`` are the rates by the id of the samples. A slot of ours is left out under another
    source that connects to the same server.
    """
    watched = Watched(paces=dict(paces))
    rows = list(WatchedSlot.objects.filter(Q(gone_at=None) | Q(slot__isnull=False)))
    for row in rows:
        row.source = sources[row.source_id]
    repeated = _repeated_slots(rows)
    for row in rows:
        if row.pk in repeated:
            continue
        if row.slot_id is not None:
            watched.ours[row.slot_id] = server_slot(row, causes.stale_after)
            continue
        view = other_view(row, watched.paces.get(row.pk, SlotRates()), now, causes)
        watched.others.setdefault(row.source_id, []).append(view)
    for views in watched.others.values():
        views.sort(key=lambda view: (urgency(view.health), view.name))
    return watched


def _repeated_slots(rows: Iterable[WatchedSlot]) -> set[int]:
    """Return the ids of rows that repeat a slot of ours under another source of the same server.

    Our slots count here even where the user may not see their source.
    """
    others = [row for row in rows if not row.slot_id and row.source.system_identifier]
    if not others:
        return set()
    own_rows, is_restricted = rows, seen_sources() is not None
    with only_of(lambda: None):
        if is_restricted:
            identifiers = {row.source.system_identifier for row in others}
            of_server = WatchedSlot.objects.filter(source__system_identifier__in=identifiers)
            own_rows = of_server.filter(slot__isnull=False).select_related("source")
        own_by_name = {(row.source.system_identifier, row.name): row for row in own_rows
                       if row.slot_id and row.gone_at is None}  # fmt: skip
        matches = (
            (row, own_by_name.get((row.source.system_identifier, row.name))) for row in others
        )
        pairs = [(row, own_row) for row, own_row in matches if own_row is not None]
        source_ids = {row.source_id for pair in pairs for row in pair}
        looks = SourceLook.objects.in_bulk(source_ids)
    return {
        row.pk
        for row, own_row in pairs
        if (server := server_of(row.source, looks)) is not None
        and server == server_of(own_row.source, looks)
    }


def other_view(row: WatchedSlot, pace: SlotRates, now: datetime, causes: Causes) -> OtherView:
    """Return the view of a slot that replview only watches."""
    server = server_slot(row, causes.stale_after)
    reading = reading_of(server, pace, now)
    health = watched_health(server, reading, now, causes.of(server, reading, None))
    return OtherView(watched_id=row.pk, server=server, reading=reading, health=health)


def reading_of(server: ServerSlot, pace: SlotRates, now: datetime) -> SlotReading:
    """Return the reading of a slot from what its server reported and from its rates.

    Where the report is not recent, only whether the slot is lost or gone is known.
    """
    if not server.fresh(now):
        return SlotReading(
            sampled_at=server.seen_at, invalidated=server.lost, gone_at=server.gone_at,
            stale_after=server.stale_after,
        )  # fmt: skip
    return SlotReading(
        sampled_at=server.seen_at,
        retained_wal_bytes=server.retained_wal_bytes,
        unconfirmed_wal_bytes=None if server.lost else server.number("unconfirmed_wal_bytes"),
        safe_wal_bytes=None if server.lost else server.number("safe_wal_size"),
        wal_status=server.text("wal_status") or None,
        invalidated=server.lost,
        idle_since=None if server.lost else server.idle_since,
        xmin_age=None if server.lost else xmin_age(server.facts),
        gone_at=server.gone_at,
        growth_bytes_per_second=pace.growth,
        growth_between=pace.between,
        behind_growth_bytes_per_second=pace.behind,
        wal_bytes_per_second=pace.wal,
        stale_after=server.stale_after,
    )


def reading_of_ours(slot: Slot, reading: SlotReading, watched: Watched) -> SlotReading:
    """Return the reading of a slot of ours: its samples, with what the server reported last."""
    server, pace = watched.ours.get(slot.pk), watched.paces.get(slot.pk, SlotRates())
    invalidated = server.lost if server is not None else ""
    lost = invalidated or reading.lost
    return replace(
        reading,
        retained_wal_bytes=None if lost else reading.retained_wal_bytes,
        unconfirmed_wal_bytes=None if lost or server is None else server.behind_bytes,
        safe_wal_bytes=None if lost else reading.safe_wal_bytes,
        invalidated=invalidated,
        idle_since=None if lost or server is None else server.idle_since,
        xmin_age=None if lost or server is None else xmin_age(server.facts),
        gone_at=server.gone_at if server is not None else None,
        growth_bytes_per_second=pace.growth,
        growth_between=pace.between,
        behind_growth_bytes_per_second=pace.behind,
        wal_bytes_per_second=pace.wal,
    )
