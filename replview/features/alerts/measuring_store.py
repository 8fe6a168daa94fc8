"""What is measured of replview itself: its receivers, what they could not store, its store."""

from collections.abc import Iterator
from typing import Any

from replview.features.alerts.measured import Measured
from replview.features.alerts.queries import store_bytes
from replview.features.alerts.snapshot import Sight
from replview.store.instance_settings import read
from replview.store.models import Quarantine, Slot

#: A receiver that connects anew is no trouble yet: until then it is not known to be one.
_CONNECTING_SECONDS = 10.0


def receiver_down(sight: Sight) -> Iterator[Measured]:
    """Seconds without a receiver, or without its sign of life; 0: it streams."""
    for slot in sight.ours:
        if slot.desired == Slot.Desired.RUNNING:
            detail = {"state": slot.state, "problem": slot.problem_code}
            yield _measured(slot, _silent_seconds(sight, slot), detail=detail)


def _silent_seconds(sight: Sight, slot: Slot) -> float | None:
    streams = slot.state == Slot.State.STREAMING
    since = slot.heartbeat_at if streams else slot.state_since
    if since is None:
        return None
    seconds = max((sight.now - since).total_seconds(), 0.0)
    if streams or slot.state == Slot.State.FAILED:
        return seconds
    return seconds if seconds >= _CONNECTING_SECONDS else None


def poison_change(sight: Sight) -> Iterator[Measured]:
    """Whether a change stops the slot until somebody decides about it."""
    stopped: dict[int, int] = dict(
        Quarantine.objects.filter(settled_at=None).values_list("slot_id", "pk")
    )
    for slot in sight.ours:
        detail = {"quarantine": stopped.get(slot.pk)}
        yield _measured(slot, float(slot.pk in stopped), detail=detail)


def store_size(sight: Sight) -> Iterator[Measured]:
    """What the store occupies, of its budget; without a budget there is nothing to measure."""
    budget = read("store.budget_bytes", None)
    if isinstance(budget, bool) or not isinstance(budget, int | float) or budget <= 0:
        return
    size = store_bytes()
    detail = {"store_bytes": size, "budget_bytes": budget}
    yield Measured(subject="store", value=size / budget, name="The store", detail=detail)


def _measured(slot: Slot, value: float | None, **more: Any) -> Measured:
    watched = getattr(slot, "watched", None)
    return Measured(
        subject=f"slot:{slot.pk}",
        value=value,
        name=str(slot),
        source_id=slot.source_id,
        slot_id=watched.pk if watched is not None else None,
        **more,
    )
