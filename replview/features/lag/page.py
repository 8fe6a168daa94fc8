"""The lag page around its charts: its slots, its sentence, its choices, what happened when."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import F, Q

from replview.health.fleet import Fleet, SlotView
from replview.health.states import urgency
from replview.store.models import Alert, Slot, SlotEvent, Source, SourceSample, WatchedSlot
from replview.text.formats import plural
from replview.ui.charts.query import CHARTS, RANGES, LagQuery
from replview.ui.slot_log import kind_of

#: Slots drawn at once: more lines than that tell nothing.
MOST_SLOTS = 20
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
        return self.slot.wal_budget_bytes if self.slot else None


def find_lag_slots(names: Sequence[str]) -> list[LagSlot]:
    """Those there are of these names, in their order; one that is gone has its past."""
    pairs = [name.partition("/")[::2] for name in dict.fromkeys(names[:MOST_SLOTS])]
    if not pairs:
        return []
    wanted = Q()
    for source, slot in pairs:
        wanted |= Q(source__name=source, name=slot)
    # Before their server was first looked at, ours are known only by the store.
    ours = [
        LagSlot(sample_id=row.pk, source=row.source, slot_name=row.name, slot=row)
        for row in Slot.objects.filter(wanted).select_related("source")
    ]
    watched = [
        LagSlot(sample_id=row.pk, source=row.source, slot_name=row.name, slot=row.slot)
        for row in WatchedSlot.objects.filter(wanted).select_related("source", "slot")
    ]
    found = {(one.source.name, one.slot_name): one for one in (*ours, *watched)}
    return [found[pair] for pair in pairs if pair in found]


def first_slot() -> str:
    """The one to begin with: ours that was read last, else any that is watched; empty: none."""
    by_heartbeat = F("heartbeat_at").desc(nulls_last=True)
    own = Slot.objects.select_related("source").order_by(by_heartbeat, "id").first()
    watched = WatchedSlot.objects.filter(gone_at=None).select_related("source")
    return str(own or next(iter(watched[:1]), ""))


def lag_page(query: LagQuery, slots: Sequence[LagSlot], fleet: Fleet) -> dict[str, Any]:
    names = [slot.name for slot in slots]
    missing = [name for name in query.slots if name not in names]
    # Links lead only to slots there are.
    query = replace(query, slots=tuple(names))
    return {
        "query": query,
        "slots": slots,
        "names": names,
        "missing": missing,
        "sentence": _sentence(slots, fleet),
        "ranges": [
            (word, label, query.url(range=word, **{"from": "", "to": ""}),
             query.range == word and not (query.since or query.until))
            for word, (label, _) in RANGES.items()
        ],
        "range_label": RANGES[query.range][0],
        "charts": [(key, title, key in query.charts) for key, title in CHARTS.items()],
        "choices": _choices(fleet, names),
        "sources": sorted({slot.source.pk for slot in slots}),
        "own": next((slot.name for slot in slots if slot.slot), ""),
        "most_slots": MOST_SLOTS,
        "data_query": query.words(table=""),
    }  # fmt: skip


def _sentence(slots: Sequence[LagSlot], fleet: Fleet) -> dict[str, Any]:
    """The health of the one slot, or of the worst of several."""
    views = [
        view
        for slot in slots
        if (view := fleet.find_slot(slot.name) or fleet.find_other(slot.name)) is not None
    ]
    if not views:
        name = slots[0].slot_name if len(slots) == 1 else plural(len(slots), "slot")
        return {"level": "unknown", "title": f"{name}: nothing is known of now.",
                "cause": "It is gone, or was never looked at."}  # fmt: skip
    chosen = min(views, key=lambda view: urgency(view.health))
    title = chosen.health.title
    if len(slots) > 1:
        name = "" if chosen.name in title else f"{chosen.full_name}: "
        title = f"Worst of {len(slots)}: {name}{title}"
    return {
        "level": chosen.level,
        "title": title,
        "cause": chosen.health.cause,
        "next": chosen.health.next_step,
        "url": chosen.url,
    }


def _choices(fleet: Fleet, names: Sequence[str]) -> list[dict[str, Any]]:
    """Every slot by its source; ours first."""
    groups = []
    for source in sorted(fleet.sources, key=lambda view: view.source.name):
        slots = [
            {"name": view.full_name, "word": view.name, "level": view.level,
             "on": view.full_name in names, "ours": isinstance(view, SlotView)}
            for view in source.views
        ]  # fmt: skip
        if slots:
            groups.append({"source": source.source.name, "slots": slots})
    return groups


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
