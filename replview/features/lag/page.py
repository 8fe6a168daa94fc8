"""What stands around the lag page's charts: its sentence, its choices, its links."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from replview.features.lag.slots import MOST_SLOTS, LagSlot
from replview.health.fleet import Fleet, SlotView
from replview.health.states import urgency
from replview.health.watched import OtherView
from replview.text.formats import plural
from replview.ui.charts.query import CHARTS, RANGES, LagQuery


def lag_page(query: LagQuery, slots: Sequence[LagSlot], fleet: Fleet) -> dict[str, Any]:
    """The template's words."""
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
            (word, label, query.url(range=word, **{"from": "", "to": ""}), _is_on(query, word))
            for word, (label, _) in RANGES.items()
        ],
        "range_label": RANGES[query.range][0],
        "charts": [(key, title, key in query.charts) for key, title in CHARTS.items()],
        "choices": _choices(fleet, names),
        "sources": sorted({slot.source.pk for slot in slots}),
        "own": next((slot.name for slot in slots if slot.slot), ""),
        "most_slots": MOST_SLOTS,
        "data_query": query.words(table=""),
    }


def _is_on(query: LagQuery, word: str) -> bool:
    return query.range == word and not (query.since or query.until)


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
    words: dict[str, Any] = {
        "level": chosen.level,
        "title": _title(chosen, len(slots)),
        "cause": chosen.health.cause,
        "next": chosen.health.next_step,
        "url": chosen.url,
    }
    return words


def _title(view: SlotView | OtherView, slots: int) -> str:
    """Of several slots it says which one."""
    title = view.health.title
    if slots == 1:
        return title
    name = "" if view.name in title else f"{view.full_name}: "
    return f"Worst of {slots}: {name}{title}"


def _choices(fleet: Fleet, names: Sequence[str]) -> list[dict[str, Any]]:
    """Every slot by its source; ours first."""
    groups = []
    for source in sorted(fleet.sources, key=lambda view: view.source.name):
        slots = [
            {"name": view.full_name, "word": view.name, "level": view.level,
             "on": view.full_name in names, "ours": isinstance(view, SlotView)}
            for view in (*source.slots, *source.others)
        ]  # fmt: skip
        if slots:
            groups.append({"source": source.source.name, "slots": slots})
    return groups
