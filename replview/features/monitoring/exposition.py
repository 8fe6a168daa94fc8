"""Write Prometheus' text format, version 0.0.4, by joining strings.

``prometheus_client`` needs 0.4 s for the 30,000 samples of a thousand slots; this module needs a
tenth of that. ``prometheus_client`` serves only the metrics of this process itself
(``features.monitoring.request_metrics``).

Source: Prometheus' documentation, "Exposition formats"; names and units follow OpenMetrics.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: The value of a sample; None is unknown, and such a sample is left out.
MetricValue = float | bool | None
MetricRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric family with at most one sample per row."""

    name: str
    #: ``gauge`` or ``counter``.
    kind: str
    #: The row's key that holds the value; a value that is no number is left out.
    of: str
    help: str


class Exposition:
    """The text of one scrape, built line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(self, name: str, kind: str, meaning: str) -> None:
        """Begin a family. Its name and help appear even if no sample follows."""
        text = meaning.replace("\\", r"\\").replace("\n", r"\n")
        self._lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

    def sample(self, name: str, labels: str, value: MetricValue) -> None:
        """Add a sample to the family that was begun last; skip an unknown value."""
        if value is not None:
            self._lines.append(f"{name}{labels} {number(value)}")

    def one(self, name: str, kind: str, meaning: str, value: MetricValue) -> None:
        """Add a family with a single sample and no labels."""
        self.family(name, kind, meaning)
        self.sample(name, "", value)

    def table(self, measures: Sequence[Measure], rows: Sequence[tuple[str, MetricRow]]) -> None:
        """Add a family for each measure, with a sample for each row (its labels and its values)."""
        for measure in measures:
            self.family(measure.name, measure.kind, measure.help)
            name, key, lines = measure.name, measure.of, self._lines
            for labels, row in rows:
                value = row.get(key)
                if isinstance(value, int | float):
                    lines.append(f"{name}{labels} {number(value)}")

    def raw(self, text: str) -> None:
        """Append text that is in the exposition format already."""
        # splitlines() would also split at a carriage return or U+2028 inside a label.
        self._lines += text.removesuffix("\n").split("\n")

    def text(self) -> str:
        """Return the whole exposition."""
        return "\n".join(self._lines) + "\n"


def labels_text(**labels: str) -> str:
    """Return labels such as ``{source="shop",slot="replview"}``; values may hold any character."""
    pairs = (f'{name}="{escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def with_label(labels: str, name: str, value: str) -> str:
    """Return ``labels`` with one more label at the end."""
    return f'{labels[:-1]},{name}="{escaped(value)}"}}'


def escaped(value: str) -> str:
    """Escape the characters that would end a label's value: quote, backslash and line feed."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def number(value: float) -> str:
    """Format a number for Prometheus; integers stay exact, however large."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
