"""The lag page over a year of twenty slots: how long the server takes, how many points it sends.

Measured through Django's client in a process of its own: routing, middleware, session, queries,
template; not the network, not the browser.
"""

import json
import statistics
from typing import Any

from tests.benchmarks.lag.instance import instance
from tests.benchmarks.report import Result

SLOTS = 20
#: The limit for the page and its data together.
BAR_MS = 500
MOST_POINTS = 1000
#: The fewest points of a year's hours: with fewer, charts were requested that show nothing.
_FEWEST_POINTS = 300


def year_of_slots(*, quick: bool) -> list[Result]:
    """The page with its data, the longest series, and what else may be asked for."""
    with instance(fsync="off") as replview:
        said = replview.client(
            "tests.benchmarks.lag.year_client", str(SLOTS), str(3 if quick else 15)
        )
    told = json.loads(said.strip().splitlines()[-1])
    asked: dict[str, dict[str, Any]] = told["asked"]
    page, data = asked["page"], asked["data"]
    both = [a + b for a, b in zip(page["ms"], data["ms"], strict=True)]
    cpu = statistics.median(page["cpu_ms"]) + statistics.median(data["cpu_ms"])
    rows = f"{told['filled']['rows']:,} rows"
    detail = (
        f"p95 {_p95(both):.0f}, CPU {cpu:.0f} ms; page {statistics.median(page['ms']):.0f}, data "
        f"{statistics.median(data['ms']):.0f} ms, {data['bytes'] / 1e6:.1f} MB; {rows}"
    )
    what = f"lag page, a year of {SLOTS} slots:"
    points = {name: part["points"] for name, part in asked.items() if part["points"] is not None}
    opened = Result.at_most(
        f"{what} page and data", statistics.median(both), BAR_MS, detail=detail, unit=" ms"
    )
    if data["points"] < _FEWEST_POINTS:
        opened = opened.spoilt(f"no series has more than {data['points']} points")
    return [
        opened,
        Result.at_most(
            f"{what} points of the longest series",
            max(points.values()),
            MOST_POINTS,
            detail=", ".join(f"{name} {count}" for name, count in points.items()),
        ),
        *[_told(f"{what} {name}", part) for name, part in asked.items() if "," in name],
    ]


def _told(what: str, part: dict[str, Any]) -> Result:
    """Return the result, without a limit, of requests that users may make as well."""
    words = (
        f"{statistics.median(part['ms']):.0f} ms (p95 {_p95(part['ms']):.0f}, CPU "
        f"{statistics.median(part['cpu_ms']):.0f} ms, {part['queries']} queries, "
        f"{part['bytes'] / 1e6:.1f} MB)"
    )
    return Result(what, words, "told", ok=True)


def _p95(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
