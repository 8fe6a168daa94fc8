"""The events on the lag page's time axis: the slots' logs, alerts and checkpoints."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from replview.features.lag.page import LagSlot
from replview.store.models import Alert, SlotEvent, SourceSample
from replview.ui.slot_log import kind_of

#: Maximum number of events, the newest ones; more symbols would cover each other.
_EVENTS_LIMIT = 200
#: Time within which a checkpoint is reported: it is known only when it is complete.
_REPORTED_WITHIN = dt.timedelta(hours=1)
_CHECKPOINTS_WITHIN = dt.timedelta(hours=25)
#: Maps kinds of events to symbols; others get a ring. Shapes differ, for readers without colour.
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
#: Maximum number of checkpoints that are drawn; more would be too close to each other.
MOST_CHECKPOINTS = 60
_BAD_KINDS = {"disconnected", "problem", "alert", "gap", "quarantined", "budget"}


def read_events(
    slots: Sequence[LagSlot], since: dt.datetime, until: dt.datetime
) -> list[dict[str, Any]]:
    """Return the slots' events, oldest first; slots of others have only alerts."""
    several = len(slots) > 1
    names = {slot.slot.pk: slot.name for slot in slots if slot.slot}
    slot_events = SlotEvent.objects.filter(slot_id__in=names, at__gte=since, at__lt=until)
    events = [
        _event(event.at, event.kind, event.message, names[event.slot_id] if several else "", event)
        for event in slot_events.order_by("-at")[:_EVENTS_LIMIT]
    ]
    others = {slot.sample_id: slot.name for slot in slots if slot.slot is None}
    alerts = Alert.objects.filter(slot_id__in=others, fired_at__gte=since, fired_at__lt=until)
    for alert in alerts.order_by("-fired_at")[:_EVENTS_LIMIT]:
        if alert.fired_at is not None and alert.slot_id is not None:
            name = others[alert.slot_id] if several else ""
            events.append(_event(alert.fired_at, "alert", alert.message, name))
    events.sort(key=lambda event: event["at"])
    return events[-_EVENTS_LIMIT:]


def read_checkpoints(
    slots: Sequence[LagSlot], since: dt.datetime, until: dt.datetime
) -> tuple[list[dict[str, Any]], int]:
    """Return the checkpoints of the slots' sources, oldest first, and their number.

    Above ``MOST_CHECKPOINTS`` they are only counted, and in more than about a day they are neither
    listed nor counted. A source that does not report checkpoints has none here.
    """
    if until - since > _CHECKPOINTS_WITHIN:
        return [], 0
    sources = {slot.source.pk: slot.source.name for slot in slots}
    # A checkpoint that began just before the end is reported a little later.
    samples = SourceSample.objects.filter(
        source_id__in=sources, sampled_at__gte=since, sampled_at__lt=until + _REPORTED_WITHIN,
        checkpointed_at__gte=since, checkpointed_at__lt=until,
    )  # fmt: skip
    pairs = samples.values_list("source_id", "checkpointed_at").distinct()
    checkpoints = {(moment, source_id) for source_id, moment in pairs if moment is not None}
    if len(checkpoints) > MOST_CHECKPOINTS:
        return [], len(checkpoints)
    events = [
        _event(
            moment, "checkpointed", f"A checkpoint of {sources[source_id]} began.",
            sources[source_id] if len(sources) > 1 else "",
        )
        for moment, source_id in sorted(checkpoints)
    ]  # fmt: skip
    return events, len(checkpoints)


def _event(
    moment: dt.datetime, kind: str, message: str, slot: str, event: SlotEvent | None = None
) -> dict[str, Any]:
    word = kind_of(kind).word
    if kind == "schema" and event is not None and isinstance(event.detail, dict):
        table = str(event.detail.get("table") or "")
        word = f"schema: {table.rpartition('.')[2][:40]}" if table else word
    return {
        "at": round(moment.timestamp() * 1000),
        "kind": kind,
        "shape": SHAPES.get(kind, "ring"),
        "bad": kind in _BAD_KINDS,
        "word": word,
        "text": message,
        "slot": slot,
    }
