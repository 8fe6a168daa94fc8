"""Throughput: WAL written on the source, and how fast the consumer reads and confirms it."""

from collections.abc import Sequence

from replview.ui.charts.figure import Chart, Line, chart, lines_of
from replview.ui.charts.values import SlotValues


def throughput(slots: Sequence[SlotValues]) -> Chart:
    """Both paces of one slot; of several slots what each one's consumer reads."""
    if len(slots) != 1:
        lines = lines_of(slots, "wal_read", "read")
        return chart("throughput", "WAL read by the consumer", "bytes/s", lines)
    slot = slots[0]
    lines = [
        Line(name="WAL written", word="written", times=slot.times, values=slot.of("wal_written"),
             ink="text-2"),
        Line(name="read by the consumer", word="read", times=slot.times,
             values=slot.of("wal_read"), dash="dash"),
    ]  # fmt: skip
    return chart("throughput", "Throughput", "bytes/s", lines)
