"""Commit to stored: how long after its commit on the source a transaction was in our store."""

from collections.abc import Sequence

from replview.ui.charts.figure import Chart, Line, chart, lines_of
from replview.ui.charts.values import SlotValues

_NOT_OURS = "Known only of slots that replview receives."


def stored_after(slots: Sequence[SlotValues]) -> Chart:
    """The middle and the slowest hundredth; by the source's clock and ours."""
    if len(slots) != 1:
        lines = lines_of(slots, "stored_after_p99_seconds", "p99")
        return chart("stored", "Commit to stored, p99", "seconds", lines)
    slot = slots[0]
    lines = [
        Line(name=name, word=name, times=slot.times, values=slot.of(f"stored_after_{name}_seconds"),
             ink=ink, dash=dash)
        for name, ink, dash in (("p50", "accent", "solid"), ("p99", "text-2", "dash"))
    ]  # fmt: skip
    known = slot.knows("stored_after_p50_seconds")
    note = "" if known else f"No transaction was stored in this time. {_NOT_OURS}"
    return chart("stored", "Commit to stored", "seconds", lines, note=note)
