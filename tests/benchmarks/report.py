"""A benchmark's result: the measured value, its limit, and whether it is met."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table. Ratios compare things measured in the same run."""

    what: str
    measured: str
    bar: str
    ok: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.measured}, bar {self.bar}: {self.verdict}"

    @property
    def verdict(self) -> str:
        """Met or not, in the table's words."""
        return "ok" if self.ok else "falls short"

    @classmethod
    def at_least(
        cls, what: str, value: float, bar: float, *, detail: str, unit: str = ""
    ) -> "Result":
        """Met when ``value`` reaches ``bar``."""
        return cls(what, f"{value:.2f}{unit} ({detail})", f"≥ {bar:g}{unit}", value >= bar)

    @classmethod
    def at_most(
        cls, what: str, value: float, bar: float, *, detail: str, unit: str = ""
    ) -> "Result":
        """Met when ``value`` stays within ``bar``."""
        return cls(what, f"{value:.0f}{unit} ({detail})", f"≤ {bar:g}{unit}", value <= bar)

    def spoilt(self, why: str) -> "Result":
        """Return the result as not met because it was not measured as intended."""
        return replace(self, measured=f"{self.measured}; spoilt: {why}", ok=False)


def table(results: list[Result]) -> str:
    """The results as an aligned table."""
    rows = [("what", "measured", "bar", "")]
    rows += [(r.what, r.measured, r.bar, r.verdict) for r in results]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
