"""What the store knows at one moment, read once however many rules ask: a query a part."""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from replview.features.alerts.rules.alert_samples import last_reached, wal_growth
from replview.store.instance_settings import read_number
from replview.store.models import Slot, Source, SourceLook, WatchedSlot
from replview.store.same_server import one_a_server, one_a_slot

#: A look older than this is of the past: what it told is unknown now. Looks are 5 s apart, or as
#: far as ``sampling.seconds`` says.
STALE_SECONDS = 30.0
_LOOKS_MISSED = 4
#: The pace at which WAL grows is that of the last minutes.
GROWTH_WINDOW = dt.timedelta(minutes=5)
GROWTH_LEAST = dt.timedelta(seconds=20)
#: How long ago a source may last have answered for us to say when that was.
_REACHED_WITHIN = dt.timedelta(days=7)


@dataclass
class Sight:
    """The store as of ``now``; what is not asked for is not read."""

    now: dt.datetime

    @cached_property
    def stale_after(self) -> dt.timedelta:
        """How old a look may be and still tell of the present."""
        every = read_number("sampling.seconds", 5, least=1, most=3600)
        return dt.timedelta(seconds=max(STALE_SECONDS, _LOOKS_MISSED * every))

    def fresh(self, moment: dt.datetime | None) -> bool:
        """Whether a look of that moment tells of the present."""
        return moment is not None and self.now - moment < self.stale_after

    @cached_property
    def slots(self) -> list[WatchedSlot]:
        """Every slot that is there, and those of ours that no longer are; once, however many
        sources lead to its server.
        """
        return self._slots_once[0]

    @cached_property
    def also_seen_as(self) -> dict[int, list[str]]:
        """By the id of one of ``slots`` its names on the other sources of the same server."""
        return self._slots_once[1]

    @cached_property
    def _slots_once(self) -> tuple[list[WatchedSlot], dict[int, list[str]]]:
        rows = WatchedSlot.objects.select_related("source", "slot").order_by("pk")
        there = [row for row in rows if row.gone_at is None or row.slot_id is not None]
        return one_a_slot(there, self.looks, lambda row: self.fresh(row.last_seen_at))

    @cached_property
    def ours(self) -> list[Slot]:
        """The slots that replview is to receive."""
        return list(Slot.objects.filter(temporary=False).select_related("source", "watched"))

    @cached_property
    def sources(self) -> list[Source]:
        """All sources."""
        return list(Source.objects.all())

    @cached_property
    def servers(self) -> list[Source]:
        """One source of every server that was looked at lately."""
        lately = {pk: look for pk, look in self.looks.items() if self.fresh(look.looked_at)}
        return one_a_server(self.sources, lately)

    @cached_property
    def looks(self) -> dict[int, SourceLook]:
        """The last look at each source, by its id."""
        return {look.source_id: look for look in SourceLook.objects.all()}

    def growth(self, slot_ids: Collection[int]) -> dict[int, float]:
        """Bytes a second by which retained WAL has grown, of those slots where it is known."""
        return wal_growth(slot_ids, self.now, GROWTH_WINDOW, GROWTH_LEAST)

    def reached_at(self, source_ids: list[int]) -> dict[int, dt.datetime]:
        """When these sources last told their state; absent: not within a week."""
        return last_reached(source_ids, self.now - _REACHED_WITHIN)
