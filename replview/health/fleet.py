"""This module reads all sources and slots with their health, in a fixed number of queries."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.utils import timezone

from replview.health.findings_received import slot_health, source_health
from replview.health.queries import (
    AlertCounts,
    read_open,
    read_present,
    read_registered,
)
from replview.health.server_slot import ServerSlot
from replview.health.states import Health, Level, SlotReading, urgency, worst
from replview.health.watched import Causes, OtherView, Watched, read_watched, reading_of_ours
from replview.store.models import Slot, Source
from replview.store.read.coverage import STALE_AFTER
from replview.text.addresses import slot_page_url
from replview.text.formats import bytes_words, plural

#: Number of watched slots that a source's row shows.
OTHERS_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """A slot that replview receives, with its reading and its health."""

    slot: Slot
    reading: SlotReading
    health: Health
    #: Number of streaming and prepared transactions.
    open: int
    #: True when the last sample is recent.
    present_known: bool
    #: The slot as its server last reported it; None: never.
    server: ServerSlot | None = None

    @property
    def level(self) -> Level:
        """Return the level of the slot's health."""
        return self.health.level

    @property
    def name(self) -> str:
        """Return the slot's name without its source."""
        return self.slot.name

    @property
    def full_name(self) -> str:
        """Return ``source/slot``."""
        return str(self.slot)

    @property
    def url(self) -> str:
        """Return the address of the slot's page."""
        return slot_page_url(self.slot)

    @property
    def lost(self) -> str:
        """Return why the slot can never be read again; empty where it can."""
        return self.reading.lost

    @property
    def retained_wal_bytes(self) -> int | None:
        """Return the WAL retained now; None if the last sample is too old, or the slot is lost."""
        return self.reading.retained_wal_bytes if self.present_known else None

    @property
    def transactions_per_second(self) -> float | None:
        """Return the present rate; None if the last sample is too old."""
        return self.reading.transactions_per_second if self.present_known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """A source, its slots, and the worst health of them."""

    source: Source
    #: The slots that replview receives, worst first.
    slots: list[SlotView]
    #: The slots that replview only watches, worst first.
    others: list[OtherView]
    health: Health
    #: When the source was last sampled, checked, or heard of by a receiver.
    checked_at: datetime | None
    #: True when the last sample of any slot is recent.
    present_known: bool

    @property
    def level(self) -> Level:
        """Return the level of the source's health."""
        return self.health.level

    @property
    def views(self) -> list[SlotView | OtherView]:
        """Return all slots of the source, replview's own before the others."""
        return [*self.slots, *self.others]

    @property
    def retained_wal_bytes(self) -> int | None:
        """Return the WAL retained by the slot that is furthest behind; None: unknown.

        Slots share WAL, so their sizes do not add up. Where no slot has a recent sample, the last
        known sizes count.
        """
        sizes = [
            slot.reading.retained_wal_bytes
            for slot in self.views
            if slot.present_known or not self.present_known
        ]
        return max((size for size in sizes if size is not None), default=None)

    @property
    def worst_first(self) -> list[SlotView | OtherView]:
        """Return the slots, worst first; at equal urgency replview's own before the others."""
        return sorted(self.views, key=lambda view: urgency(view.health))

    @property
    def chips(self) -> list[OtherView]:
        """Return the watched slots that are shown in the source's row."""
        return self.others[:OTHERS_SHOWN]

    @property
    def chips_more(self) -> bool:
        """Return whether there are more watched slots than the source's row shows."""
        return len(self.others) > OTHERS_SHOWN

    @property
    def lost_words(self) -> str:
        """Return ``lost`` if one of the slots is; shown where no size is known."""
        return "lost" if any(view.lost for view in self.views) else ""

    @property
    def others_words(self) -> str:
        """Return ``7 other slots, the worst lost``; empty without any."""
        if not self.others:
            return ""
        number = plural(len(self.others), "other slot")
        return f"{number}, the worst {self.others[0].level.word}"

    @property
    def limit_words(self) -> str:
        """Return ``of 64 GB``, or what it means that there is no limit."""
        limit = self.source.max_slot_wal_keep_bytes
        if limit is None:
            return "limit unknown"
        return "no limit: can fill disk" if limit < 0 else f"of {bytes_words(limit)}"

    @property
    def transactions_per_second(self) -> float | None:
        """Return the rate of the busiest slot, as two slots store the same commit twice."""
        rates = [slot.transactions_per_second for slot in self.slots]
        return max((rate for rate in rates if rate is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All sources, worst first, and the counts of alerts."""

    now: datetime
    sources: list[SourceView] = field(default_factory=list)
    alerts: AlertCounts = field(default_factory=AlertCounts)
    #: How old a sample may be and still describe the present.
    stale_after: timedelta = STALE_AFTER

    @property
    def causes(self) -> Causes:
        """Return the causes that hold slots back."""
        return Causes(self.now, self.stale_after)

    @property
    def slots(self) -> Iterable[SlotView]:
        """Return the slots that replview receives."""
        return (slot for source in self.sources for slot in source.slots)

    @property
    def others(self) -> Iterable[OtherView]:
        """Return the slots that replview only watches."""
        return (slot for source in self.sources for slot in source.others)

    @property
    def views(self) -> list[SlotView | OtherView]:
        """Return all slots, replview's own before the others."""
        return [*self.slots, *self.others]

    @property
    def open(self) -> int:
        """Return the number of streaming and prepared transactions of all slots."""
        return sum(slot.open for slot in self.slots)

    @property
    def checked_at(self) -> datetime | None:
        """Return when any source was last heard of; None: never."""
        return max((s.checked_at for s in self.sources if s.checked_at), default=None)

    @property
    def worst(self) -> Health | None:
        """Return the health of the worst source; None while there is no source."""
        return worst(source.health for source in self.sources) if self.sources else None

    def summary(self) -> str:
        """Return ``1 needs you now, 1 needs a look``, or that all is well."""
        counts = Counter(source.level for source in self.sources)
        phrases = [
            f"{counts[level]} {'need' if counts[level] > 1 else 'needs'} {phrase}"
            for level, phrase in ((Level.NOW, "you now"), (Level.LOOK, "a look"))
            if counts[level]
        ]
        if counts[Level.UNKNOWN]:
            phrases.append(f"{counts[Level.UNKNOWN]} unknown")
        return " · ".join(phrases) or f"{plural(len(self.sources), 'source')} well"

    def source_count(self) -> str:
        """Return the counts as a sentence, such as "5 sources, 9 slots."."""
        return f"{plural(len(self.sources), 'source')}, {plural(len(list(self.slots)), 'slot')}."

    def summary_sentence(self) -> str:
        """Return the summary as a sentence."""
        return f"{self.summary().replace(' · ', ', ')}."

    def slot_count(self) -> str:
        """Return the counts as a sentence, such as "9 slots on 5 sources."."""
        slots = plural(len(self.views), "slot")
        return f"{slots} on {plural(len(self.sources), 'source')}."

    def find_slot(self, name: str) -> SlotView | None:
        """Return a slot that replview receives, by ``source/slot``; None where there is none."""
        return next((view for view in self.slots if str(view.slot) == name), None)

    def find_other(self, name: str) -> OtherView | None:
        """Return a slot that replview only watches, by ``source/slot``; None: there is none."""
        return next((view for view in self.others if view.full_name == name), None)


def read_fleet(now: datetime | None = None) -> Fleet:
    """Read all sources and slots and decide their health, in a fixed number of queries."""
    now = now or timezone.now()
    rows, slots = read_registered()
    readings, paces = read_present()
    open_by_incarnation, alerts, full_workers, stale_after = read_open(now)
    causes = Causes(now, stale_after)
    watched = read_watched(rows, paces, now, causes)
    by_source: dict[int, list[SlotView]] = defaultdict(list)
    for slot in slots:
        sampled = replace(readings.get(slot.pk, SlotReading()), stale_after=stale_after)
        reading = reading_of_ours(slot, sampled, watched)
        count, prepared = open_by_incarnation.get(slot.incarnation_id, (0, None))
        server = watched.ours.get(slot.pk)
        cause = causes.of(server, reading, slot)
        by_source[slot.source_id].append(
            SlotView(
                slot=slot,
                reading=reading,
                health=slot_health(slot, reading, prepared, now, cause, full_workers),
                open=count,
                present_known=reading.fresh(now),
                server=server,
            )
        )
    sources = [
        _source_view(source, by_source.get(source.pk, []), watched, now) for source in rows.values()
    ]
    sources.sort(key=lambda view: (urgency(view.health), view.source.name))
    return Fleet(now=now, sources=sources, alerts=alerts, stale_after=stale_after)


def _source_view(
    source: Source, slots: list[SlotView], watched: Watched, now: datetime
) -> SourceView:
    """Return the view of one source, with the worst of its findings."""
    slots.sort(key=lambda view: urgency(view.health))
    others = watched.others.get(source.pk, [])
    views: list[SlotView | OtherView] = [*slots, *others]
    # Watched slots count if they are in trouble, or if there are no other slots.
    counted = [view for view in others if not slots or view.level in (Level.NOW, Level.LOOK)]
    healths = [view.health for view in slots] + [view.health for view in counted]
    times = [source.checked_at]
    times += [view.reading.sampled_at for view in views]
    times += [view.slot.heartbeat_at for view in slots if view.slot.state == Slot.State.STREAMING]
    return SourceView(
        source=source,
        slots=slots,
        others=others,
        health=source_health(source, healths, now),
        checked_at=max((time for time in times if time), default=None),
        present_known=any(view.present_known for view in views),
    )
