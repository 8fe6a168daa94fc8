"""Changes or bytes a second by table: the busiest, and the others as one."""

from collections.abc import Sequence

from replview.ui.charts.figure import Chart, Line, chart, style_of

_NONE = "No change was recorded in this time. Known only of a slot that replview receives."


def table_rates(
    times: Sequence[float], tables: Sequence[tuple[str, Sequence[float | None]]], *, by: str
) -> Chart:
    """``by`` is ``changes`` or ``bytes``; tables come busiest first, the others last."""
    lines = [
        Line(name=name, word=name, times=times, values=values, stacked=True, area=True,
             **style_of(number))
        for number, (name, values) in enumerate(tables)
    ]  # fmt: skip
    title = "Changes by table" if by == "changes" else "Bytes by table"
    key = "tables" if by == "changes" else "table-bytes"
    unit = "changes/s" if by == "changes" else "bytes/s"
    return chart(key, title, unit, lines, note="" if lines else _NONE)
