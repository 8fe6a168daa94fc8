"""Slots and sources as a look left them, without a source."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest

from replview.features.alerts.evaluation import evaluate
from replview.store.models import (
    Alert,
    Slot,
    SlotIncarnation,
    Source,
    SourceLook,
    WatchedSlot,
)

GB = 1 << 30
START = dt.datetime(2026, 11, 20, 7, 0, tzinfo=dt.UTC)


@dataclass
class Sampled:
    """A source ``shop`` with our slot ``replview``: what its last sample says, and the time."""

    source: Source
    slot: Slot
    watched: WatchedSlot
    now: dt.datetime = START

    def sample(self, *, after: float = 5, inactive_since: Any = None, **facts: Any) -> list[Alert]:
        """Store a sample with these facts ``after`` seconds later; return the evaluated alerts."""
        self.now += dt.timedelta(seconds=after)
        self.watched.facts |= facts
        self.watched.last_seen_at = self.now
        self.watched.inactive_since = inactive_since
        self.watched.save()
        Slot.objects.filter(pk=self.slot.pk).update(heartbeat_at=self.now)
        Source.objects.filter(pk=self.source.pk).update(checked_at=self.now)
        return evaluate(self.now)

    def passes(self, seconds: float) -> list[Alert]:
        """Time passes without a sample."""
        self.now += dt.timedelta(seconds=seconds)
        return evaluate(self.now)

    def other(self, name: str, **facts: Any) -> WatchedSlot:
        """A slot that is not ours."""
        return WatchedSlot.objects.create(
            id=self.slot.pk + 1000 + WatchedSlot.objects.count(), source=self.source, name=name,
            last_seen_at=self.now, facts={"active": True, "wal_status": "reserved", **facts},
        )  # fmt: skip

    def saw(self, **values: Any) -> None:
        """A look at what holds the source back."""
        defaults = {"looked_at": self.now, "prepared": [], "running": [], "holders": {}, **values}
        SourceLook.objects.update_or_create(source=self.source, defaults=defaults)


@pytest.fixture
def sampled(db) -> Sampled:
    """All is well."""
    source = Source.objects.create(
        name="shop", conninfo="", max_slot_wal_keep_bytes=10 * GB, checked_at=START
    )
    slot = Slot.objects.create(
        source=source, name="replview", state="streaming", state_since=START, heartbeat_at=START
    )
    slot.incarnation = SlotIncarnation.objects.create(
        slot=slot, number=1, system_identifier="1", timeline=1, reason="created"
    )
    slot.save()
    facts = {"active": True, "wal_status": "reserved", "retained_wal_bytes": 0,
             "unconfirmed_wal_bytes": 0}  # fmt: skip
    watched = WatchedSlot.objects.create(
        id=slot.pk, source=source, name="replview", slot=slot, last_seen_at=START, facts=facts
    )
    return Sampled(source, slot, watched)
