"""The state of the store at one moment; each part is read once, for all rules."""

import datetime as dt
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Max

from replview.health.conditions import lost_reason
from replview.health.queries import SlotRates, read_full_workers, read_paces
from replview.health.source_state import stale_after
from replview.store.models import Lake, Slot, Source, SourceLook, SourceSample, WatchedSlot
from replview.store.same_server import one_a_server, one_a_slot

#: Age of the oldest samples in which a source's last answer is searched.
_REACHED_WITHIN = dt.timedelta(days=7)


@dataclass
class StoreSnapshot:
    """The state of the store at ``now``; each part is read when it is first needed."""

    now: dt.datetime

    @cached_property
    def stale_after(self) -> dt.timedelta:
        """Return the age above which a sample does not show the present state."""
        return stale_after()

    def fresh(self, moment: dt.datetime | None) -> bool:
        """Return whether a sample of that moment shows the present state."""
        return moment is not None and self.now - moment < self.stale_after

    @cached_property
    def slots(self) -> list[WatchedSlot]:
        """Return every existing slot, and slots of ours that are gone.

        A slot that several sources lead to occurs once.
        """
        return self._slots_once[0]

    @cached_property
    def existing_slots(self) -> list[WatchedSlot]:
        """Return the slots that exist and are not lost."""
        return [
            slot
            for slot in self.slots
            if slot.gone_at is None and not lost_reason(slot.facts, slot.source.server_version)
        ]

    @cached_property
    def also_seen_as(self) -> dict[int, list[str]]:
        """Return, by slot id, the slot's names through other sources of its server."""
        return self._slots_once[1]

    @cached_property
    def _slots_once(self) -> tuple[list[WatchedSlot], dict[int, list[str]]]:
        slots = WatchedSlot.objects.select_related("source", "slot").order_by("pk")
        existing = [slot for slot in slots if slot.gone_at is None or slot.slot_id is not None]
        return one_a_slot(existing, self.looks, lambda slot: self.fresh(slot.last_seen_at))

    @cached_property
    def ours(self) -> list[Slot]:
        """Return the slots that replview receives, without temporary ones."""
        return list(Slot.objects.filter(temporary=False).select_related("source", "watched"))

    @cached_property
    def lakes(self) -> list[Lake]:
        """Return the lakes whose slots exist, with their tables."""
        lakes = Lake.objects.filter(slot__isnull=False).select_related("slot__source")
        return list(lakes.prefetch_related("relations"))

    @cached_property
    def sources(self) -> list[Source]:
        """Return all sources."""
        return list(Source.objects.all())

    @cached_property
    def servers(self) -> list[Source]:
        """Return one source of each server; recent samples tell which sources share one."""
        fresh_looks = {pk: look for pk, look in self.looks.items() if self.fresh(look.looked_at)}
        return one_a_server(self.sources, fresh_looks)

    @cached_property
    def looks(self) -> dict[int, SourceLook]:
        """Return the last sample of each source, by the source's id."""
        return SourceLook.objects.in_bulk()

    @cached_property
    def full_workers(self) -> int:
        """Return the number of running receiver workers if all are full, else 0."""
        return read_full_workers(self.now)

    @cached_property
    def paces(self) -> dict[int, SlotRates]:
        """Return how fast each slot's numbers change, by the slot's id."""
        return read_paces(self.now)

    def reached_at(self, source_ids: list[int]) -> dict[int, dt.datetime]:
        """Return when these sources last answered, if that was within a week."""
        since = self.now - _REACHED_WITHIN
        samples = SourceSample.objects.filter(
            source_id__in=source_ids, reachable=True, sampled_at__gt=since
        )
        sampled = samples.values_list("source_id").annotate(last=Max("sampled_at"))
        slots = WatchedSlot.objects.filter(source_id__in=source_ids, last_seen_at__gt=since)
        seen = slots.values_list("source_id").annotate(last=Max("last_seen_at"))
        reached: dict[int, dt.datetime] = {}
        for source_id, last in [*sampled, *seen]:
            reached[source_id] = max(last, reached.get(source_id, last))
        return reached
