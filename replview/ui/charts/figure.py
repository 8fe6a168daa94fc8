"""Turn values over time into a figure, in the form that all charts have."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, groupby
from typing import Any

from replview.ui.charts.axis import Axis, axis

#: Colours of several slots; dashes distinguish them too.
INKS = ("accent", "upd", "ins", "trn", "msg", "del", "text-2")
DASHES = ("solid", "dash", "dot", "dashdot")
#: Margins of the plot, equal in all charts, so that they share one time axis.
MARGIN = {"l": 64, "r": 12, "t": 8, "b": 6, "pad": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotValues:
    """The points of one slot, oldest first; a point with only None values is a gap."""

    name: str
    #: Milliseconds since 1970.
    times: Sequence[float]
    values: Mapping[str, Sequence[Any]]

    def of(self, field: str) -> Sequence[Any]:
        """Return the values of a field; all None where it was not read."""
        return self.values.get(field) or [None] * len(self.times)

    def knows(self, field: str) -> bool:
        """Return whether any value of a field is known."""
        return any(value is not None for value in self.of(field))


@dataclass(frozen=True, slots=True, kw_only=True)
class HatchedRange:
    """A hatched range of time in which something is unknown, and why."""

    since: float
    until: float
    why: str
    #: True when it lasts to the newest point.
    open: bool = False


def stretches(slot: SlotValues, reasons: Sequence[str | None]) -> list[HatchedRange]:
    """Return one range for neighbouring points with the same reason; a lone point makes none."""
    ranges: list[HatchedRange] = []
    number = 0
    for reason, points in groupby(reasons):
        start, number = number, number + len(list(points))
        if reason is not None and number - start > 1:
            lasts = number == len(reasons)
            until = slot.times[number - 1 if lasts else number]
            ranges.append(
                HatchedRange(since=slot.times[start], until=until, why=reason, open=lasts)
            )
    return ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line: its points, its name in the legend, and the colour and dash that distinguish it."""

    name: str
    times: Sequence[float]
    values: Sequence[Any]
    ink: str = "accent"
    dash: str = "solid"
    #: True to fill below the line. The page fills each run of points, as plotly fills across gaps.
    area: bool = False
    #: The name of its value in the chart's title line: ``5.3 MB/s written``.
    word: str = ""
    #: True to stack it onto the lines before it.
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitLine:
    """A horizontal line at a limit."""

    value: float
    name: str
    #: The words at the line.
    words: str
    ink: str = "del"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure and the words around it on the page."""

    key: str
    title: str
    unit: str
    figure: dict[str, Any]
    legend: list[dict[str, str]]
    #: A note on what the server does not report, or why nothing is drawn.
    note: str = ""
    unknown: list[dict[str, Any]] = field(default_factory=list)
    #: True when the x axis is time.
    timed: bool = True

    def as_json(self) -> dict[str, object]:
        """Return all fields for the page's script."""
        return {name: getattr(self, name) for name in self.__slots__}


def style_of(number: int) -> tuple[str, str]:
    """Return the colour and dash of a line by its number."""
    return INKS[number % len(INKS)], DASHES[(number // len(INKS)) % len(DASHES)]


def lines_of(
    slots: Sequence[SlotValues], source: str, word: str = "", **single: Any
) -> list[ChartLine]:
    """Return a field's line for each slot, named for the field, or for the slot if several."""
    if len(slots) == 1:
        fields = {"name": word or source, "word": word, **single}
        return [ChartLine(times=slots[0].times, values=slots[0].of(source), **fields)]
    return [
        ChartLine(name=slot.name, times=slot.times, values=slot.of(source), word=slot.name,
                  ink=ink, dash=dash)
        for slot, (ink, dash) in zip(slots, map(style_of, count()), strict=False)
    ]  # fmt: skip


def chart(
    key: str,
    title: str,
    unit: str,
    lines: Sequence[ChartLine],
    *,
    levels: Sequence[LimitLine] = (),
    unknown: Sequence[HatchedRange] = (),
    note: str = "",
) -> Chart:
    """Return a chart over time; gaps stay gaps, and the axis begins at zero."""
    highest = max((_highest(lines), *(level.value for level in levels)), default=0.0)
    marks = axis(unit, highest)
    data = [_hatched(stretch) for stretch in unknown]
    data += [_trace(line, unit) for line in lines]
    legend = [{"name": line.name, "ink": line.ink, "dash": line.dash} for line in lines]
    legend += [{"name": level.name, "ink": level.ink, "dash": "dash"} for level in levels]
    has_values = any(value is not None for line in lines for value in line.values)
    return Chart(
        key=key,
        title=title,
        unit=unit,
        figure={"data": data, "layout": _layout(marks, levels)},
        legend=legend,
        note=note or ("" if has_values else "No data in this time range."),
        unknown=[asdict(range_) for range_ in unknown],
    )


def _layout(marks: Axis, levels: Sequence[LimitLine]) -> dict[str, object]:
    """Return plotly's layout: an axis from zero, and one for marks over the whole height."""
    return {
        "margin": dict(MARGIN),
        "showlegend": False,
        "hovermode": False,
        "dragmode": False,
        "xaxis": {"type": "linear", "fixedrange": True, "zeroline": False, "automargin": False},
        "yaxis": {
            "range": [0, marks.top], "fixedrange": True, "zeroline": False, "tickmode": "array",
            "tickvals": marks.values, "ticktext": marks.words, "automargin": False,
        },
        # This axis is for marks over the whole height, whatever the values.
        "yaxis2": {"range": [0, 1], "overlaying": "y", "fixedrange": True, "visible": False},
        "shapes": [_level_line(level) for level in levels],
        "annotations": [_level_words(level) for level in levels],
    }  # fmt: skip


def _highest(lines: Sequence[ChartLine]) -> float:
    stacked = [line.values for line in lines if line.stacked]
    if stacked:
        columns = zip(*stacked, strict=False)
        return max((sum(v or 0 for v in column) for column in columns), default=0.0)
    return max((v for line in lines for v in line.values if v is not None), default=0.0)


def _trace(line: ChartLine, unit: str) -> dict[str, object]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        "x": line.times,
        "y": line.values,
        "connectgaps": False,
        "line": {"dash": line.dash, "width": 1.6, "simplify": True},
        "meta": {"ink": line.ink, "unit": unit, "word": line.word, "area": line.area},
    }
    if line.stacked:
        trace["stackgroup"] = "all"
    return trace


def _hatched(stretch: HatchedRange) -> dict[str, object]:
    """Return the trace of a range in which something is unknown."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": stretch.why,
        "x": [stretch.since, stretch.since, stretch.until, stretch.until, stretch.since],
        "y": [0, 1, 1, 0, 0],
        "yaxis": "y2",
        "fill": "toself",
        "fillpattern": {"shape": "/", "size": 6, "solidity": 0.12, "fillmode": "overlay"},
        "line": {"width": 0},
        "meta": {"ink": "text-3", "hatched": True},
    }


def _level_line(level: LimitLine) -> dict[str, object]:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": level.value,
        "y1": level.value, "line": {"dash": "dash", "width": 1.5}, "name": level.ink,
    }  # fmt: skip


def _level_words(level: LimitLine) -> dict[str, object]:
    return {
        "text": level.words, "xref": "paper", "x": 0.01, "xanchor": "left", "yref": "y",
        "y": level.value, "yanchor": "top", "showarrow": False, "name": level.ink,
    }  # fmt: skip
