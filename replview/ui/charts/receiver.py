"""Our receiver: how many changes it stores at once, and the memory its process holds."""

from collections.abc import Sequence

from replview.ui.charts.figure import Chart, chart, lines_of
from replview.ui.charts.values import SlotValues

_NOT_OURS = "Known only of slots that replview receives, while the receiver runs."


def batch_size(slots: Sequence[SlotValues]) -> Chart:
    """Changes in the last store transaction before each sample."""
    lines = lines_of(slots, "batch_changes", "changes at once")
    known = any(slot.knows("batch_changes") for slot in slots)
    return chart("batch", "Receiver: batch size", "changes", lines, note="" if known else _NOT_OURS)


def memory(slots: Sequence[SlotValues]) -> Chart:
    """Resident memory of the process that receives the slot."""
    lines = lines_of(slots, "memory_bytes", "held", area=True)
    known = any(slot.knows("memory_bytes") for slot in slots)
    return chart("memory", "Receiver: memory", "bytes", lines, note="" if known else _NOT_OURS)
