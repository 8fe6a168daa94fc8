"""Lines to a figure: what all charts over time have in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.ui.charts.axes import Axis, axis
from replview.ui.charts.values import SlotValues, Stretch

#: Inks of several slots, distinguished by their dashes too.
INKS = ("accent", "upd", "ins", "trn", "msg", "del", "text-2")
DASHES = ("solid", "dash", "dot", "dashdot")
#: What stands left of the plot, so that all charts share one time axis.
MARGIN = {"l": 64, "r": 12, "t": 8, "b": 6, "pad": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: its name in the legend, and the ink and dash that tell it from others."""

    name: str
    times: Sequence[float]
    values: Sequence[Any]
    ink: str = "accent"
    dash: str = "solid"
    #: Filled below, by the page: a run of known points at a time, since plotly fills across gaps.
    area: bool = False
    #: How its value is called in the chart's title line: ``5.3 MB/s written``.
    word: str = ""
    #: Stacked onto the lines before it.
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A line across that means something: a limit."""

    value: float
    name: str
    #: What stands at the line.
    words: str
    ink: str = "del"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure and what the page says around it."""

    key: str
    title: str
    unit: str
    figure: dict[str, Any]
    legend: list[dict[str, str]]
    #: What the server does not tell, or why nothing is drawn.
    note: str = ""
    unknown: list[dict[str, Any]] = field(default_factory=list)
    #: Its x axis is time.
    timed: bool = True

    def as_json(self) -> dict[str, Any]:
        """As the page is sent it."""
        return {name: getattr(self, name) for name in self.__slots__}


def style_of(number: int) -> tuple[str, str]:
    """The ink and dash of the nth of several slots."""
    return INKS[number % len(INKS)], DASHES[(number // len(INKS)) % len(DASHES)]


def lines_of(slots: Sequence[SlotValues], source: str, word: str = "", **single: Any) -> list[Line]:
    """A field's line for each slot: of one slot named for what it is, of several for the slot."""
    if len(slots) == 1:
        given = {"name": word or source, "word": word, **single}
        return [Line(times=slots[0].times, values=slots[0].of(source), **given)]
    lines = []
    for number, slot in enumerate(slots):
        ink, dash = style_of(number)
        lines.append(
            Line(name=slot.name, times=slot.times, values=slot.of(source), word=slot.name,
                 ink=ink, dash=dash)
        )  # fmt: skip
    return lines


def chart(
    key: str,
    title: str,
    unit: str,
    lines: Sequence[Line],
    *,
    levels: Sequence[Level] = (),
    unknown: Sequence[Stretch] = (),
    note: str = "",
) -> Chart:
    """A chart over time: gaps stay gaps, zero is its floor."""
    highest = max((_highest(lines), *(level.value for level in levels)), default=0.0)
    marks = axis(unit, highest)
    data = [_hatched(stretch) for stretch in unknown]
    data += [_trace(line, unit) for line in lines]
    legend = [{"name": line.name, "ink": line.ink, "dash": line.dash} for line in lines]
    legend += [{"name": level.name, "ink": level.ink, "dash": "dash"} for level in levels]
    return Chart(
        key=key,
        title=title,
        unit=unit,
        figure={"data": data, "layout": _layout(marks, levels)},
        legend=legend,
        note=note if any_known(lines) else (note or "Nothing is known of this stretch of time."),
        unknown=[
            {"since": one.since, "until": one.until, "why": one.why, "open": one.open}
            for one in unknown
        ],
    )


def _layout(marks: Axis, levels: Sequence[Level]) -> dict[str, Any]:
    """Plotly's layout: an axis from zero, a second one for what spans the whole height."""
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
        # For what spans the whole height, whatever the values.
        "yaxis2": {"range": [0, 1], "overlaying": "y", "fixedrange": True, "visible": False},
        "shapes": [_level_line(level) for level in levels],
        "annotations": [_level_words(level) for level in levels],
    }  # fmt: skip


def any_known(lines: Iterable[Line]) -> bool:
    """Whether there is anything to draw."""
    return any(value is not None for line in lines for value in line.values)


def _highest(lines: Sequence[Line]) -> float:
    stacked = [line.values for line in lines if line.stacked]
    if stacked:
        columns = zip(*stacked, strict=False)
        return max((sum(v or 0 for v in column) for column in columns), default=0.0)
    return max((v for line in lines for v in line.values if v is not None), default=0.0)


def _trace(line: Line, unit: str) -> dict[str, Any]:
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


def _hatched(stretch: Stretch) -> dict[str, Any]:
    """A stretch of which nothing is known."""
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


def _level_line(level: Level) -> dict[str, Any]:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": level.value,
        "y1": level.value, "line": {"dash": "dash", "width": 1.5}, "name": level.ink,
    }  # fmt: skip


def _level_words(level: Level) -> dict[str, Any]:
    return {
        "text": level.words, "xref": "paper", "x": 0.01, "xanchor": "left", "yref": "y",
        "y": level.value, "yanchor": "top", "showarrow": False, "name": level.ink,
    }  # fmt: skip
