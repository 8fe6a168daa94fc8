"""Unconfirmed WAL: how far the consumer's confirmed position is behind the server's."""

from collections.abc import Sequence

from replview.ui.charts.figure import Chart, chart, lines_of
from replview.ui.charts.values import SlotValues


def unconfirmed_wal(slots: Sequence[SlotValues]) -> Chart:
    """Of physical slots the server tells none."""
    lines = lines_of(slots, "unconfirmed_wal_bytes", "unconfirmed", area=True)
    return chart("unconfirmed", "Unconfirmed WAL", "bytes", lines)
