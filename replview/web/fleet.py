"""All sources and slots with their health, read in a handful of queries however many they are."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Min, Q
from django.utils import timezone

from replview.store.models import Slot, Source, Transaction
from replview.web.findings import slot_health, source_health
from replview.web.health import Health, Level, Prepared, Reading, worst
from replview.web.samples import read_readings
from replview.web.words import bytes_words, plural

OPEN_STATES = (Transaction.State.STREAMING, Transaction.State.PREPARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """A slot and what is to be said of it."""

    slot: Slot
    reading: Reading
    health: Health
    #: Streaming and prepared transactions.
    open: int
    #: Whether the samples tell of the present.
    present_known: bool

    @property
    def level(self) -> Level:
        """Its health's word."""
        return self.health.level

    @property
    def retained_wal_bytes(self) -> int | None:
        """Now; None when the last sample is of the past."""
        return self.reading.retained_wal_bytes if self.present_known else None

    @property
    def transactions_per_second(self) -> float | None:
        """Now; None when the last sample is of the past."""
        return self.reading.transactions_per_second if self.present_known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """A source, its slots, and the worst of them."""

    source: Source
    slots: list[SlotView]
    health: Health
    #: The newest sign that somebody looked.
    checked_at: datetime | None
    #: Whether the samples tell of the present.
    present_known: bool

    @property
    def level(self) -> Level:
        """Its health's word."""
        return self.health.level

    @property
    def retained_wal_bytes(self) -> int | None:
        """What the slot furthest behind retains: slots share WAL, so they do not add up.

        Where nothing is known of the present, what was last known.
        """
        known = [
            slot.reading.retained_wal_bytes
            for slot in self.slots
            if slot.present_known or not self.present_known
        ]
        return max((size for size in known if size is not None), default=None)

    @property
    def limit_words(self) -> str:
        """``of 64 GB``, or what it means that there is none."""
        limit = self.source.max_slot_wal_keep_bytes
        if limit is None:
            return "limit unknown"
        return "no limit: can fill disk" if limit < 0 else f"of {bytes_words(limit)}"

    @property
    def transactions_per_second(self) -> float | None:
        """Of its busiest slot; two slots store the same commit twice."""
        known = [slot.transactions_per_second for slot in self.slots]
        return max((rate for rate in known if rate is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything replview reads, worst first."""

    now: datetime
    sources: list[SourceView] = field(default_factory=list)

    @property
    def slots(self) -> Iterable[SlotView]:
        """Every slot of every source."""
        return (slot for source in self.sources for slot in source.slots)

    @property
    def open(self) -> int:
        """Streaming and prepared transactions of all slots."""
        return sum(slot.open for slot in self.slots)

    @property
    def checked_at(self) -> datetime | None:
        """The newest sign that somebody looked at any source."""
        return max((s.checked_at for s in self.sources if s.checked_at), default=None)

    @property
    def worst(self) -> Health | None:
        """The health of the worst source; None while there is no source."""
        return worst(source.health for source in self.sources) if self.sources else None

    def summary(self) -> str:
        """``1 needs you now, 1 needs a look``, or that all is well."""
        counts: dict[Level, int] = defaultdict(int)
        for source in self.sources:
            counts[source.level] += 1
        bad = [
            f"{counts[level]} {'need' if counts[level] > 1 else 'needs'} {rest}"
            for level, rest in ((Level.NOW, "you now"), (Level.LOOK, "a look"))
            if counts[level]
        ]
        if counts[Level.UNKNOWN]:
            bad.append(f"{counts[Level.UNKNOWN]} unknown")
        if bad:
            return " · ".join(bad)
        return f"{plural(len(self.sources), 'source')} well"

    def source_count(self) -> str:
        """``5 sources, 9 slots.``"""
        return f"{plural(len(self.sources), 'source')}, {plural(len(list(self.slots)), 'slot')}."

    def summary_sentence(self) -> str:
        """The summary as a sentence."""
        return f"{self.summary().replace(' · ', ', ')}."

    def slot_count(self) -> str:
        """``9 slots on 5 sources.``"""
        slots = plural(len(list(self.slots)), "slot")
        return f"{slots} on {plural(len(self.sources), 'source')}."

    def slot_summary(self) -> str:
        """How many slots are in each state, in words."""
        counts: dict[Level, int] = defaultdict(int)
        for view in self.slots:
            counts[view.level] += 1
        said = [f"{counts[level]} {level.word}" for level in Level if counts[level]]
        return f"{', '.join(said)}."

    def find_slot(self, name: str) -> SlotView | None:
        """By ``source/slot``."""
        return next((view for view in self.slots if str(view.slot) == name), None)


def read_fleet(now: datetime | None = None) -> Fleet:
    """Four queries: sources, slots, their samples, their open transactions."""
    now = now or timezone.now()
    readings = read_readings()
    open_by_incarnation = _read_open()
    by_source: dict[int, list[SlotView]] = defaultdict(list)
    for slot in Slot.objects.select_related("source"):
        reading = readings.get(slot.pk, Reading())
        count, prepared = open_by_incarnation.get(slot.incarnation_id, (0, None))
        by_source[slot.source_id].append(
            SlotView(
                slot=slot,
                reading=reading,
                health=slot_health(slot, reading, prepared, now),
                open=count,
                present_known=reading.fresh(now),
            )
        )
    sources = [
        _source_view(source, by_source.get(source.pk, []), now) for source in Source.objects.all()
    ]
    sources.sort(key=_worst_first)
    return Fleet(now=now, sources=sources)


def _worst_first(view: SourceView) -> tuple[int, float, str]:
    return view.level.rank, view.health.loss_seconds or 1e18, view.source.name


def _source_view(source: Source, slots: list[SlotView], now: datetime) -> SourceView:
    slots.sort(key=lambda view: view.level.rank)
    signs = [source.checked_at]
    signs += [view.reading.sampled_at for view in slots]
    signs += [view.slot.heartbeat_at for view in slots if view.slot.state == Slot.State.STREAMING]
    return SourceView(
        source=source,
        slots=slots,
        health=source_health(source, [view.health for view in slots], now),
        checked_at=max((sign for sign in signs if sign), default=None),
        present_known=any(view.present_known for view in slots),
    )


def _read_open() -> dict[int | None, tuple[int, Prepared | None]]:
    """By incarnation: how many are open, and the one prepared for longest."""
    prepared = Q(state=Transaction.State.PREPARED)
    rows = (
        Transaction.objects.filter(state__in=OPEN_STATES)
        .values("incarnation_id")
        .annotate(count=Count("id"), since=Min("prepared_at", filter=prepared))
    )
    found = {row["incarnation_id"]: row for row in rows}
    oldest = {row["since"] for row in found.values() if row["since"]}
    gids = dict(
        Transaction.objects.filter(prepared, prepared_at__in=oldest).values_list(
            "incarnation_id", "gid"
        )
        if oldest
        else ()
    )
    return {
        incarnation: (
            row["count"],
            Prepared(gid=gids.get(incarnation) or "", prepared_at=row["since"])
            if row["since"]
            else None,
        )
        for incarnation, row in found.items()
    }
