"""What the lag page shows as CSV: a line a moment, chart and line; an empty cell is unknown.

Names that a spreadsheet would take for a formula begin with an apostrophe.
"""

import csv
import datetime as dt
import io
from collections.abc import Iterator, Sequence

from replview.ui.charts.figure import Chart

_HEAD = ("time", "slot", "chart", "line", "value", "unit")
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
_PIECE_CHARACTERS = 64 * 1024


def csv_pieces(charts: Sequence[Chart], slots: Sequence[str]) -> Iterator[bytes]:
    """The heading, then every point of every chart, in pieces of an even size."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(_HEAD)
    for chart in charts:
        for trace in chart.figure["data"]:
            if trace["meta"].get("hatched"):
                continue
            # Of several slots each line is a slot.
            slot = slots[0] if len(slots) == 1 else str(trace["name"])
            for moment, value in zip(trace["x"], trace["y"], strict=False):
                time = _utc(moment) if chart.timed else moment
                shown = "" if value is None else value
                row = (time, _safe(slot), chart.title, _safe(trace["name"]), shown, chart.unit)
                writer.writerow(row)
                if buffer.tell() > _PIECE_CHARACTERS:
                    yield _taken(buffer)
    yield _taken(buffer)


def _utc(milliseconds: float) -> str:
    moment = dt.datetime.fromtimestamp(milliseconds / 1000, tz=dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_RISKY) else text


def _taken(buffer: io.StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode()
