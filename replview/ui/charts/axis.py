"""Compute the axes of charts: their ticks and the words at them.

Ticks of bytes are powers of two; ticks of seconds and counts are ones, twos and fives.
"""

from dataclasses import dataclass

from replview.text.formats import NO_BREAK, bytes_words

#: Most intervals between ticks.
_MOST_TICKS = 4
#: The least top of an axis, by unit.
_LEAST_TOP = {"bytes": 1024.0, "bytes/s": 1024.0, "seconds": 1.0}


@dataclass(frozen=True, slots=True)
class Axis:
    """Values and words of the ticks, and the top of the axis."""

    top: float
    values: list[float]
    words: list[str]


def axis(unit: str, highest: float) -> Axis:
    """Return an axis from 0 that includes ``highest``, in a unit that ``words_of`` knows."""
    reach = max(highest, _LEAST_TOP.get(unit, 1.0))
    binary = unit.startswith("bytes")
    step = _binary_step(reach) if binary else _decimal_step(reach)
    values = [step * number for number in range(int(reach / step + 1e-9) + 1)]
    if reach - values[-1] > step * 0.35:
        values.append(values[-1] + step)
    top = max(reach, values[-1]) * 1.04
    return Axis(top, values, [words_of(unit, value) if value else "0" for value in values])


def _binary_step(reach: float) -> float:
    step = 1.0
    while reach / step > _MOST_TICKS + 0.5:
        step *= 2
    return step


def _decimal_step(reach: float) -> float:
    size = 1e-6
    while True:
        for factor in (1, 2, 5):
            if reach / (size * factor) <= _MOST_TICKS + 0.5:
                return size * factor
        size *= 10


def words_of(unit: str, value: float) -> str:
    """Return ``16 GB``, ``5.3 MB/s``, ``200 ms``, ``8 s``, ``1,200/s`` or ``1,200``."""
    if unit.startswith("bytes"):
        return bytes_words(value) + unit.removeprefix("bytes")
    if unit == "seconds":
        return _seconds_words(value)
    figure = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2g}"
    return f"{figure}/s" if unit.endswith("/s") else figure


def _seconds_words(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.3g}{NO_BREAK}ms"
    if value < 120:
        return f"{value:.3g}{NO_BREAK}s"
    if value < 7200:
        return f"{value / 60:.3g}{NO_BREAK}min"
    return f"{value / 3600:.3g}{NO_BREAK}h"
