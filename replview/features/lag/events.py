"""What happened while the lag page's charts were drawn: the slots' log and checkpoints."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from replview.features.lag.page import LagSlot
from replview.store.models import Alert, SlotEvent, SourceSample
from replview.ui.slot_log import kind_of

#: The newest of so many: more symbols than that cover each other.
_MOST_EVENTS = 200
#: A checkpoint is written for minutes, and known when it is complete.
_SEEN_WITHIN = dt.timedelta(hours=1)
_CHECKPOINTS_WITHIN = dt.timedelta(hours=25)
#: Kind → shape on the rail; any other is a ring. The shape says it without the colour.
SHAPES = {
    "connected": "disc",
    "disconnected": "cross",
    "problem": "cross",
    "stopped": "square",
    "schema": "diamond",
    "alert": "triangle",
    "alert_cleared": "tick",
    "gap": "bars",
    "skipped": "bars",
    "budget": "triangle",
    "checkpointed": "flag",
}
#: More checkpoints than this stand so close that they tell nothing: then their number does.
MOST_CHECKPOINTS = 60
_BAD = {"disconnected", "problem", "alert", "gap", "quarantined", "budget"}


def read_events(
    slots: Sequence[LagSlot], since: dt.datetime, until: dt.datetime
) -> list[dict[str, Any]]:
    """Oldest first; of slots that are not ours the alerts are all that is known."""
    several = len(slots) > 1
    names = {slot.slot.pk: slot.name for slot in slots if slot.slot}
    found = SlotEvent.objects.filter(slot_id__in=names, at__gte=since, at__lt=until)
    events = [
        _event(event.at, event.kind, event.message, names[event.slot_id] if several else "", event)
        for event in found.order_by("-at")[:_MOST_EVENTS]
    ]
    others = {slot.sample_id: slot.name for slot in slots if slot.slot is None}
    alerts = Alert.objects.filter(slot_id__in=others, fired_at__gte=since, fired_at__lt=until)
    for alert in alerts.order_by("-fired_at")[:_MOST_EVENTS]:
        if alert.fired_at is not None and alert.slot_id is not None:
            name = others[alert.slot_id] if several else ""
            events.append(_event(alert.fired_at, "alert", alert.message, name))
    events.sort(key=lambda event: event["at"])
    return events[-_MOST_EVENTS:]


def read_checkpoints(
    slots: Sequence[LagSlot], since: dt.datetime, until: dt.datetime
) -> tuple[list[dict[str, Any]], int]:
    """Those of the slots' sources that began in this time, oldest first, and how many there were;
    too many are only counted, and of more than a day not even that. A source that does not tell
    its checkpoints has none here.
    """
    if until - since > _CHECKPOINTS_WITHIN:
        return [], 0
    sources = {slot.source.pk: slot.source.name for slot in slots}
    # One that began just before the end is seen a little later.
    seen = SourceSample.objects.filter(
        source_id__in=sources, sampled_at__gte=since, sampled_at__lt=until + _SEEN_WITHIN,
        checkpointed_at__gte=since, checkpointed_at__lt=until,
    )  # fmt: skip
    pairs = seen.values_list("source_id", "checkpointed_at").distinct()
    found = {(at, source_id) for source_id, at in pairs if at is not None}
    if len(found) > MOST_CHECKPOINTS:
        return [], len(found)
    events = [
        _event(
            at, "checkpointed", f"A checkpoint of {sources[source_id]} began.",
            sources[source_id] if len(sources) > 1 else "",
        )
        for at, source_id in sorted(found)
    ]  # fmt: skip
    return events, len(found)


def _event(
    at: dt.datetime, kind: str, message: str, slot: str, event: SlotEvent | None = None
) -> dict[str, Any]:
    word = kind_of(kind).word
    if kind == "schema" and event is not None and isinstance(event.detail, dict):
        table = str(event.detail.get("table") or "")
        word = f"schema: {table.rpartition('.')[2][:40]}" if table else word
    return {
        "at": round(at.timestamp() * 1000),
        "kind": kind,
        "shape": SHAPES.get(kind, "ring"),
        "bad": kind in _BAD,
        "word": word,
        "text": message,
        "slot": slot,
    }
