"""Spilled and streamed: what the server decoded beyond logical_decoding_work_mem."""

from collections.abc import Sequence

from replview.ui.charts.figure import Chart, Line, chart, lines_of
from replview.ui.charts.values import SlotValues

_NAMES = (
    ("decoded", "total_bytes", "text-2", "solid"),
    ("spilled to disk", "spill_bytes", "del", "dash"),
    ("streamed", "stream_bytes", "accent", "dot"),
)


def spill_stream(slots: Sequence[SlotValues]) -> Chart:
    """Bytes a second, from pg_stat_replication_slots; of several slots what each spills."""
    if len(slots) != 1:
        lines = lines_of(slots, "spill_bytes", "spilled")
        return chart("spill", "Spilled to disk", "bytes/s", lines)
    slot = slots[0]
    lines = [
        Line(name=name, word=name, times=slot.times, values=slot.of(field), ink=ink, dash=dash)
        for name, field, ink, dash in _NAMES
    ]
    note = (
        ""
        if slot.knows("total_bytes")
        else "The server told no decoding counters in this time; a physical slot has none."
    )
    return chart("spill", "Decoded, spilled, streamed", "bytes/s", lines, note=note)
