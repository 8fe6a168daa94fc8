"""The alert kind *receiver down*."""

from collections.abc import Iterator, Mapping
from typing import Any

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds.base import BuiltInRule, problem_text
from replview.features.alerts.kinds.slot_base import SampledSlotKind, measured_own_slot
from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.health import conditions
from replview.health.findings_received import waits_for_worker
from replview.store.models import AlertRule, Slot, WatchedSlot
from replview.store.receiver_workers import SLOTS_PER_WORKER

#: Seconds within which a reconnecting receiver does not count as down.
_CONNECTING_SECONDS = 10.0


class ReceiverDown(SampledSlotKind):
    """A started slot has no working receiver."""

    key = "receiver_down"
    word = "Receiver down"
    about = (
        "A started slot has had no receiver, or no heartbeat from it, for this long. Known after "
        "ten seconds."
    )
    remedy = (
        "The slot's page says why. A worker must run and have room: replview up --receivers N "
        f"starts N of them, and each takes {SLOTS_PER_WORKER} slots at most."
    )
    unit = Unit.SECONDS
    built_in = (
        BuiltInRule(
            key="receiver_down",
            name="Receiver down",
            severity=AlertRule.Severity.NOW,
            threshold=10.0,
            clear_seconds=2.0,
        ),
    )

    def value(self, slot: WatchedSlot, observation: conditions.Observation) -> float | None:
        """Return the seconds without a reader: samples do not contain the receiver's state."""
        return conditions.unread_seconds(slot, observation)

    def concerns(self, slot: WatchedSlot, *, own_rule: bool) -> bool:
        """Return whether replview receives the slot."""
        return slot.slot is not None

    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield the seconds without a receiver or its heartbeat, for slots set to run."""
        for slot in snapshot.ours:
            if slot.desired == Slot.Desired.RUNNING:
                detail: dict[str, Any] = {"state": slot.state, "problem": slot.problem_code}
                if waits_for_worker(slot, snapshot.now) and snapshot.full_workers:
                    detail["full_workers"] = snapshot.full_workers
                yield measured_own_slot(slot, _silent_seconds(snapshot, slot), detail=detail)

    def fired_message(self, measured: Measured) -> str:
        """Return the sentence with the time and the reason."""
        amount, reason = amount_words(measured.value, self.unit), _reason_text(measured.detail)
        return f"{measured.name} has had no working receiver for {amount}{reason}."


def _silent_seconds(snapshot: StoreSnapshot, slot: Slot) -> float | None:
    streams = slot.state == Slot.State.STREAMING
    since = slot.heartbeat_at if streams else slot.state_since
    if since is None:
        return None
    seconds = max((snapshot.now - since).total_seconds(), 0.0)
    if streams or slot.state == Slot.State.FAILED:
        return seconds
    return seconds if seconds >= _CONNECTING_SECONDS else None


def _reason_text(detail: Mapping[str, Any]) -> str:
    """Return why the slot has no receiver: all workers are full, or the slot's problem."""
    if not detail.get("full_workers"):
        return problem_text(detail)
    return f": every worker has its {SLOTS_PER_WORKER} slots; add a worker"
