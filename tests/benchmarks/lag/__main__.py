"""``make bench-lag``: sampling, lag pages and alerts at their size; 0 only if all bars are met.

``python -m tests.benchmarks.lag [--quick] [--only NAME …]``: about five minutes. Each benchmark
starts servers of its own on free ports and in temporary folders; they are gone when it ends.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable

from replview.runtime.machine import StackProblem
from tests.benchmarks import machine
from tests.benchmarks.lag import hundred_sources, source_cost, thousand_slots, year
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result, table

BENCHMARKS: dict[str, Callable[..., list[Result]]] = {
    "hundred-sources": hundred_sources.hundred_sources,
    "source-cost": source_cost.cost_to_the_source,
    "year": year.year_of_slots,
    "thousand-slots": thousand_slots.thousand_slots,
}


def main() -> int:
    """Run what was asked for; 0 only if every bar is met."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _say(machine.describe())
    if warning := machine.warning():
        _say(warning)
    results: list[Result] = []
    try:
        for name in options.only or BENCHMARKS:
            results += _measured(name, quick=options.quick)
    except KeyboardInterrupt:
        _say("\nstopped; everything started is gone")
        return 130
    print(f"\n{table(results)}")
    if options.quick:
        _say("\n--quick: too short to conclude from")
    return 0 if all(result.ok for result in results) else 1


def _measured(name: str, *, quick: bool) -> list[Result]:
    """The results of one benchmark; one that breaks is a result too."""
    _say(f"{name} …")
    started = time.monotonic()
    try:
        results = BENCHMARKS[name](quick=quick)
    except (Failed, StackProblem) as problem:
        results = [Result(name, f"not measured: {str(problem)[-400:]}", "", ok=False)]
    for result in results:
        _say(f"  {result}")
    _say(f"  {time.monotonic() - started:.0f} s")
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lag", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, and too short to conclude")
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS)
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
