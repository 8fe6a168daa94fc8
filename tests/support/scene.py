"""Five invented sources, one about to lose its slot: for tests of pages, and for pictures."""

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from decoder.scalars import LSN
from replview.store.models import Slot, SlotEvent, SlotIncarnation, Source, Transaction
from replview.store.read.days import transaction_id
from replview.store.write.partitions import ensure_partitions

MB, GB = 1 << 20, 1 << 30
SAMPLED_EVERY = timedelta(seconds=60)


@dataclass
class Scene:
    """The sources and slots that were made, and the time at which the scene plays."""

    now: datetime
    sources: dict[str, Source] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    made: int = 0

    def source(self, name: str, version: int, **values: Any) -> Source:
        """A source, checked two seconds ago unless told otherwise."""
        known = {"server_version": version, "in_recovery": False, "timeline": 1,
                 "system_identifier": f"75{len(self.sources)}", "max_slot_wal_keep_bytes": 8 * GB,
                 "checked_at": self.now - timedelta(seconds=2),
                 "conninfo": f"host={name}.example port=5432 dbname=app user=replview"}  # fmt: skip
        self.sources[name] = Source.objects.create(name=name, **(known | values))
        return self.sources[name]

    def slot(self, source: str, name: str, **values: Any) -> Slot:
        """A slot that streams, unless told otherwise."""
        known = {"state": "streaming", "heartbeat_at": self.now, "publications": ["replview"],
                 "state_since": self.now - timedelta(hours=3), "epoch": 1,
                 "checkpoint_lsn": LSN.parse("2/4E91C3D8"), "server_lsn": LSN.parse("2/4E91C4A0"),
                 "options": {"proto_version": 4, "streaming": "parallel", "messages": True},
                 "last_stored_at": self.now - timedelta(seconds=1)}  # fmt: skip
        slot = Slot.objects.create(source=self.sources[source], name=name, **(known | values))
        slot.incarnation = SlotIncarnation.objects.create(
            slot=slot, number=1, system_identifier="7500", timeline=1, reason="created"
        )
        slot.save()
        self.slots[str(slot)] = slot
        return slot

    def samples(
        self, slot: str, retained: Any, *, rate: float = 0, until: timedelta = timedelta(0),
        hours: float = 3, **values: Any,
    ) -> None:  # fmt: skip
        """Store a sample a minute; ``retained`` maps a time from 0 (first) to 1 (last) to bytes."""
        count = int(hours * 60)
        rows = []
        for step in range(count + 1):
            at = self.now - SAMPLED_EVERY * (count - step) - until
            rows.append((at, int(retained(step / count)), int(rate * step * 60)))
        # And one shortly before the last, so that the rate is that of the last seconds.
        at = rows[-1][0] - timedelta(seconds=20)
        rows.append((at, int(retained(1)), int(rate * (count * 60 - 20))))
        columns = [list(column) for column in zip(*rows, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO slot_sample (slot_id, sampled_at, retained_wal_bytes,"
                " transactions_stored, wal_status) SELECT %s, told.*, %s"
                " FROM unnest(%s::timestamptz[], %s::bigint[], %s::bigint[]) told",
                [self.slots[slot].pk, values.get("wal_status", "reserved"), *columns],
            )

    def transaction(self, slot: str, state: str, age: timedelta, **values: Any) -> Transaction:
        """A transaction first heard of ``age`` ago."""
        made = self.unsaved(slot, state, age, **values)
        made.save(force_insert=True)
        return made

    def unsaved(self, slot: str, state: str, age: timedelta, **values: Any) -> Transaction:
        """Return a transaction first heard of ``age`` ago that is not in the store."""
        self.made += 1
        values.setdefault("prepared_at", self.now - age if state == "prepared" else None)
        return Transaction(
            id=transaction_id(self.made, at=(self.now - age).timestamp()),
            incarnation=self.slots[slot].incarnation,
            state=state,
            received_at=self.now - age,
            **values,
        )

    def event(self, slot: str, kind: str, message: str, ago: timedelta) -> None:
        """A line in a slot's log."""
        SlotEvent.objects.create(
            slot=self.slots[slot], kind=kind, message=message, at=self.now - ago
        )


def build_scene(now: datetime | None = None) -> Scene:
    """A bad morning: billing-eu in trouble, crm waiting, shop-replica silent."""
    scene = Scene(now or timezone.now())
    connection.ensure_connection()
    today = scene.now.date()
    ensure_partitions(connection.connection, today - timedelta(days=1), today)
    _billing(scene)
    _crm(scene)
    _replica(scene)
    _shop(scene)
    _warehouse(scene)
    _events(scene)
    return scene


def _billing(scene: Scene) -> None:
    scene.source("billing-eu", 160014, max_slot_wal_keep_bytes=64 * GB)
    scene.slot("billing-eu", "replview_billing", heartbeat_at=scene.now,
               changes_stored=1_204_118, state_since=scene.now - timedelta(hours=2))  # fmt: skip
    scene.slot("billing-eu", "replview", changes_stored=402_316)
    scene.slot("billing-eu", "replview_eu", changes_stored=87_310)
    scene.samples("billing-eu/replview_billing",
                  lambda t: 0.6 * GB + max(0, t - 0.42) / 0.58 * 31.6 * GB, rate=61)  # fmt: skip
    scene.samples("billing-eu/replview", lambda t: 40 * MB, rate=61)
    scene.samples("billing-eu/replview_eu", lambda t: 40 * MB, rate=12)


def _crm(scene: Scene) -> None:
    scene.source("crm", 170006, max_slot_wal_keep_bytes=-1)
    scene.slot("crm", "replview", changes_stored=96_004, server_lsn=LSN.parse("1/F2A01C88"),
               checkpoint_lsn=LSN.parse("1/F2A01C88"))  # fmt: skip
    scene.slot("crm", "warehouse_sync", changes_stored=2_004)
    scene.samples("crm/replview", lambda t: (2.9 + 1.2 * t) * GB, rate=8)
    scene.transaction("crm/replview", "prepared", timedelta(hours=9, minutes=12), xid=90215733,
                      gid="crm_batch_20261119_2", updates=410_002, inserts=2_878,
                      first_lsn=LSN.parse("0/EC500000"))  # fmt: skip


def _replica(scene: Scene) -> None:
    silent = scene.now - timedelta(seconds=41)
    scene.source("shop-replica", 180004, in_recovery=True, checked_at=silent)
    scene.slot("shop-replica", "replview_ro", state="reconnecting", state_since=silent,
               heartbeat_at=scene.now, problem_code="unreachable",
               problem_cause="connection timed out", last_stored_at=silent,
               retry_at=scene.now + timedelta(seconds=12))  # fmt: skip
    scene.samples("shop-replica/replview_ro", lambda t: (88 + 3 * math.sin(t * 70)) * MB,
                  rate=23, until=timedelta(minutes=25))  # fmt: skip


def _shop(scene: Scene) -> None:
    scene.source("shop", 180004)
    scene.slot("shop", "replview", changes_stored=512_904, server_lsn=LSN.parse("2/4E91C3D8"))
    scene.slot("shop", "replview_inserts", changes_stored=13_988)
    scene.samples("shop/replview", lambda t: (40 + 90 * (t * 5 % 1)) * MB, rate=23)
    committed = []
    for number in range(40):
        age = timedelta(seconds=40 - number)
        at = scene.now - age
        known = {"xid": 481860 + number, "commit_seq": number + 1, "inserts": 2, "commit_time": at,
                 "stored_at": at + timedelta(milliseconds=30 + number)}  # fmt: skip
        committed.append(scene.unsaved("shop/replview", "committed", age, **known))
    Transaction.objects.bulk_create(committed)
    open_ones = [
        ("prepared", 266, {"gid": "pos_settle_20261120_05", "updates": 1_204, "back": 88}),
        ("streaming", 108, {"xid": 479418, "updates": 186_400, "back": 62}),
        ("prepared", 41, {"gid": "pos_settle_20261120_07", "updates": 317, "back": 24}),
        ("streaming", 3, {"xid": 481833, "inserts": 9_216, "back": 1.7}),
    ]
    for state, seconds, values in open_ones:
        back = int(values.pop("back") * MB)
        scene.transaction("shop/replview", state, timedelta(seconds=seconds), streamed=True,
                          first_lsn=LSN(LSN.parse("2/4E91C3D8") - back), **values)  # fmt: skip


def _warehouse(scene: Scene) -> None:
    scene.source("warehouse", 150014, max_slot_wal_keep_bytes=16 * GB)
    scene.slot("warehouse", "replview", last_stored_at=scene.now - timedelta(minutes=16))
    scene.samples("warehouse/replview", lambda t: (22 if t < 0.75 else 16) * MB)


def _events(scene: Scene) -> None:
    for slot, kind, message, minutes in (
        ("shop-replica/replview_ro", "problem", "Connection timed out", 0.7),
        ("shop/replview", "schema", "customers: version 3, column newsletter added", 1.2),
        ("shop/replview", "connected", "Connected at 2/4E90A118", 14),
        ("shop/replview", "gap", "Gap: the slot was re-created, 8 min not recorded", 19),
        ("billing-eu/replview_billing", "disconnected", "wal_sender_timeout on the source", 106),
        ("warehouse/replview", "stopped", "Stopped by its user", 320),
        ("crm/replview", "connected", "Connected at 1/E1A00000", 2100),
    ):
        scene.event(slot, kind, message, timedelta(minutes=minutes))
