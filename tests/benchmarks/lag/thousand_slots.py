"""A thousand slots in the store: what summing up their samples costs, and evaluating the alerts."""

import json
import statistics
from typing import Any

from tests.benchmarks.lag.instance import instance
from tests.benchmarks.report import Result

SOURCES, SLOTS_EACH = 100, 10
#: CPU of one evaluation, ours and the server's.
EVALUATION_BAR_MS = 1000


def thousand_slots(*, quick: bool) -> list[Result]:
    """Return the CPU times of evaluating the alerts and of rolling the samples up."""
    minutes, times = (6, 3) if quick else (12, 8)
    sizes = (SOURCES, SLOTS_EACH, minutes, times)
    with instance(fsync="off") as replview:
        said = replview.client("tests.benchmarks.lag.thousand_client", *map(str, sizes))
    told = json.loads(said.strip().splitlines()[-1])
    return [_evaluated(told["evaluations"], told["slots"]), _rolled(told["roll_up"], told)]


def _evaluated(told: dict[str, Any] | str, slots: int) -> Result:
    what = f"alerts of {slots:,} slots, CPU of an evaluation"
    if isinstance(told, str):
        return Result(what, f"not measured: {told[:300]}", "", ok=False)
    later = told["cpu_ms"][1:]
    detail = (
        f"the first {told['cpu_ms'][0]:.0f} ms; {told['queries']} queries, wall "
        f"{statistics.median(told['ms'][1:]):.0f} ms, {told['alerts']} alerts open"
    )
    return Result.at_most(
        what, statistics.median(later), EVALUATION_BAR_MS, detail=detail, unit=" ms"
    )


def _rolled(told: dict[str, float] | str, all_told: dict[str, Any]) -> Result:
    slots = all_told["slots"]
    what = f"summing up the samples of {slots:,} slots, CPU a minute of them"
    if isinstance(told, str):
        return Result(what, f"not measured: {told[:300]}", "", ok=False)
    if not told["minutes"]:
        return Result(what, "not measured: nothing was summed up", "", ok=False)
    ours, servers = (told[name] / told["minutes"] * 1000 for name in ("ours", "servers"))
    words = (
        f"{ours + servers:.0f} ms (ours {ours:.0f}, the server's {servers:.0f}; {told['rows']:,} "
        f"rows of {all_told['samples']:,}; a run with nothing new {told['idle'] * 1000:.0f} ms)"
    )
    return Result(what, words, "told", ok=True)
