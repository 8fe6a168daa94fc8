"""Retained WAL: what the slot keeps on the source's disk, against what may be kept."""

from collections.abc import Sequence

from replview.ui.charts.axes import words_of
from replview.ui.charts.figure import Chart, Level, chart, lines_of
from replview.ui.charts.values import SlotValues, stretches

#: A limit is drawn once so much of it is reached; before, it would press the line to the floor.
_DRAWN_FROM = 0.05


def retained_wal(
    slots: Sequence[SlotValues],
    *,
    limit_bytes: float | None = None,
    budget_bytes: float | None = None,
) -> Chart:
    """``limit_bytes`` is max_slot_wal_keep_size, ``budget_bytes`` replview's own for its slot."""
    lines = lines_of(slots, "retained_wal_bytes", "retained", area=True)
    highest = max((v for line in lines for v in line.values if v is not None), default=0)
    levels, notes = [], []
    for name, value, words in (
        ("budget", budget_bytes, "budget {}"),
        ("limit", limit_bytes, "limit {}, the slot is lost here"),
    ):
        if value is None or len(slots) != 1:
            continue
        told = words_of("bytes", value)
        if highest >= value * _DRAWN_FROM:
            ink = "del" if name == "limit" else "upd"
            levels.append(Level(value=value, name=name, words=words.format(told), ink=ink))
        else:
            notes.append(f"{name} {told}, far above")
    lost = []
    if len(slots) == 1:
        reasons = ["the slot is lost" if gone else None for gone in slots[0].of("lost")]
        lost = stretches(slots[0], reasons)
    return chart("retained", "Retained WAL", "bytes", lines, levels=levels, unknown=lost,
                 note=", ".join(notes))  # fmt: skip
