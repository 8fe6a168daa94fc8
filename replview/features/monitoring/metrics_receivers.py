"""Our receivers: whether they live, what they have stored, what they cost."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replview.features.monitoring.exposition import Exposition, Measure, Value, labels_text
from replview.store.models import Slot
from replview.store.write.lease import LEASE_SECONDS


@dataclass(frozen=True, slots=True)
class ReceiverNow:
    """One slot's receiver."""

    up: bool
    wanted: bool
    heartbeat_age_seconds: float | None
    connected_seconds: float | None
    transactions_stored: int
    changes_stored: int
    bytes_stored: int
    last_stored_at: dt.datetime | None
    #: What it told of itself with its last sign of life; empty: it is not up.
    facts: dict[str, Any]


def write_receivers(scrape: Exposition, now: dt.datetime) -> None:
    """One query, however many there are."""
    found = Slot.objects.filter(temporary=False, source__ephemeral=False)
    rows = []
    for row in found.exclude(desired=Slot.Desired.REMOVING).order_by("id").values_list(
        "source__name", "name", "state", "desired", "heartbeat_at", "connected_at",
        "transactions_stored", "changes_stored", "bytes_stored", "last_stored_at",
        "receiver_facts",
    ):  # fmt: skip
        (source, name, state, desired, heartbeat_at, connected_at,
         transactions, changes, stored_bytes, last_stored_at, facts) = row  # fmt: skip
        age = None if heartbeat_at is None else max(0.0, (now - heartbeat_at).total_seconds())
        alive = age is not None and age < LEASE_SECONDS
        up = alive and state == Slot.State.STREAMING
        connected = None
        if up and connected_at is not None:
            connected = max(0.0, (now - connected_at).total_seconds())
        receiver = ReceiverNow(
            up, desired == Slot.Desired.RUNNING, age, connected, transactions, changes,
            stored_bytes, last_stored_at, facts if alive and isinstance(facts, dict) else {},
        )  # fmt: skip
        rows.append((labels_text(source=source, slot=name), receiver))
    scrape.table(MEASURES, rows)


def _fact(name: str) -> Callable[[ReceiverNow], Value]:
    return lambda receiver: receiver.facts.get(name)


MEASURES = (
    Measure("replview_receiver_up", "gauge",
            "Whether the slot's receiver lives and streams.", lambda receiver: receiver.up),
    Measure("replview_receiver_wanted", "gauge",
            "Whether the slot is to be received: 0 where somebody has stopped it.",
            lambda receiver: receiver.wanted),
    Measure("replview_receiver_heartbeat_age_seconds", "gauge",
            "Age of the receiver's last sign of life; absent where there never was one.",
            lambda receiver: receiver.heartbeat_age_seconds),
    Measure("replview_receiver_connected_seconds", "gauge",
            "Since when the receiver streams without a break.",
            lambda receiver: receiver.connected_seconds),
    Measure("replview_receiver_transactions_stored_total", "counter",
            "Transactions stored; begins anew with a new life of the slot.",
            lambda receiver: receiver.transactions_stored),
    Measure("replview_receiver_changes_stored_total", "counter",
            "Changes stored; begins anew with a new life of the slot.",
            lambda receiver: receiver.changes_stored),
    Measure("replview_receiver_bytes_stored_total", "counter",
            "Bytes of stored transactions as they came; begins anew with a new life of the slot.",
            lambda receiver: receiver.bytes_stored),
    Measure("replview_receiver_last_stored_timestamp_seconds", "gauge",
            "When something was stored last.",
            lambda receiver: receiver.last_stored_at and receiver.last_stored_at.timestamp()),
    Measure("replview_receiver_batch_changes", "gauge",
            "Changes in the last transaction with the store.", _fact("batch_changes")),
    Measure("replview_receiver_batch_bytes", "gauge",
            "Bytes in the last transaction with the store.", _fact("batch_bytes")),
    Measure("replview_receiver_batch_seconds", "gauge",
            "How long the last transaction with the store took.", _fact("batch_seconds")),
    Measure("replview_receiver_memory_bytes", "gauge",
            "Memory of the process that the receiver is in; receivers of one worker share it.",
            _fact("memory_bytes")),
)  # fmt: skip
