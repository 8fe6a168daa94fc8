"""Transaction sizes: how many transactions of how many changes were committed."""

from collections.abc import Mapping
from typing import Any

from replview.ui.charts.axes import axis
from replview.ui.charts.figure import MARGIN, Chart

_NONE = "No transaction was recorded in this time. Known only of a slot that replview receives."


def transaction_sizes(counts: Mapping[int, int]) -> Chart:
    """``counts`` by power: 2^power to 2^(power + 1) - 1 changes; -1: none."""
    powers = list(range(min(counts), max(counts) + 1)) if counts else []
    numbers = [counts.get(power, 0) for power in powers]
    marks = axis("transactions", max(numbers, default=0))
    words = [_words(power) for power in powers]
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "name": "transactions", "x": words, "y": numbers,
            "meta": {"ink": "accent", "unit": "transactions", "word": "transactions"},
        }
    ]  # fmt: skip
    layout: dict[str, Any] = {
        "margin": MARGIN | {"b": 26},
        "showlegend": False,
        "hovermode": False,
        "dragmode": False,
        "bargap": 0.25,
        "xaxis": {"type": "category", "fixedrange": True},
        "yaxis": {
            "range": [0, marks.top], "fixedrange": True, "tickmode": "array", "zeroline": False,
            "tickvals": marks.values, "ticktext": marks.words,
        },
        "shapes": [],
        "annotations": [],
    }  # fmt: skip
    return Chart(
        key="sizes",
        title="Transactions by size",
        unit="transactions",
        figure={"data": data, "layout": layout},
        legend=[{"name": "changes in a transaction", "ink": "accent", "dash": "bar"}],
        note="" if counts else _NONE,
        timed=False,
    )


def _words(power: int) -> str:
    if power < 0:
        return "none"
    low, high = 1 << power, (1 << power + 1) - 1
    return f"{low}" if low == high else f"{_short(low)}–{_short(high)}"


def _short(number: int) -> str:
    for size, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if number >= size:
            return f"{number / size:.0f}{letter}"
    return str(number)
