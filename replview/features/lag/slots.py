"""The slots the lag page can draw: replview's own and those it only watches, by ``source/slot``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F, Q

from replview.store.models import Slot, Source, WatchedSlot

#: Slots drawn at once: more lines than that tell nothing.
MOST_SLOTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSlot:
    """A slot and the id of its samples."""

    sample_id: int
    source: Source
    slot_name: str
    #: replview's own; None: somebody else's.
    slot: Slot | None = None

    @property
    def name(self) -> str:
        """``source/slot``."""
        return f"{self.source.name}/{self.slot_name}"

    @property
    def limit_bytes(self) -> int | None:
        """max_slot_wal_keep_size; None where there is none, or it is unknown."""
        limit = self.source.max_slot_wal_keep_bytes
        return None if limit is None or limit < 0 else limit

    @property
    def budget_bytes(self) -> int | None:
        """What replview lets its own slot cost."""
        return self.slot.wal_budget_bytes if self.slot else None


def find_lag_slots(names: Sequence[str]) -> list[LagSlot]:
    """Those there are of these names, in their order; one that is gone has its past."""
    pairs = [name.partition("/")[::2] for name in dict.fromkeys(names[:MOST_SLOTS])]
    if not pairs:
        return []
    wanted = Q()
    for source, slot in pairs:
        wanted |= Q(source__name=source, name=slot)
    found: dict[tuple[str, str], LagSlot] = {}
    for one in (*_watched(wanted), *_ours(wanted)):
        found.setdefault((one.source.name, one.slot_name), one)
    return [found[pair] for pair in pairs if pair in found]


def _watched(wanted: Q) -> Iterable[LagSlot]:
    for row in WatchedSlot.objects.filter(wanted).select_related("source", "slot"):
        yield LagSlot(sample_id=row.pk, source=row.source, slot_name=row.name, slot=row.slot)


def _ours(wanted: Q) -> Iterable[LagSlot]:
    """Before their server was first looked at, ours are known only here."""
    for row in Slot.objects.filter(wanted).select_related("source"):
        yield LagSlot(sample_id=row.pk, source=row.source, slot_name=row.name, slot=row)


def first_slot() -> str:
    """The one to begin with: ours that was read last, else any that is watched; empty: none."""
    own = Slot.objects.select_related("source").order_by(
        F("heartbeat_at").desc(nulls_last=True), "id"
    )
    for slot in own[:1]:
        return str(slot)
    for row in WatchedSlot.objects.filter(gone_at=None).select_related("source")[:1]:
        return str(row)
    return ""
