"""``make bench-spark``: a store read by Spark, and written as Parquet; 0 only if all bars are met.

``python -m tests.benchmarks.spark [--quick] [--only NAME …]``: about eight minutes. The store is
made on a free port and in a temporary folder; it is gone when the benchmark ends.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable

from replview.runtime.machine import StackProblem
from tests.benchmarks import machine
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result, table
from tests.benchmarks.spark import archiving, catching_up, driver, history, lake, reading, writing
from tests.benchmarks.spark.filling import CHANGES, PER_TRANSACTION, filled_store

BENCHMARKS: dict[str, Callable[..., list[Result]]] = {
    "reading": reading.reading,
    "writing": writing.writing,
    "lake": lake.lake,
    "driver": driver.driver,
    # The last: they add slots to the store.
    "history": history.history,
    "archive": archiving.archiving,
    "page-question": history.page_question,
    "catching-up": catching_up.catching_up,
}


def main() -> int:
    """Run what was asked for; 0 only if every bar is met."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _say(machine.describe())
    if warning := machine.warning():
        _say(warning)
    changes = CHANGES // 10 if options.quick else CHANGES
    chosen = [name for name in BENCHMARKS if name in (options.only or BENCHMARKS)]
    results: list[Result] = []
    try:
        reading.needs(jdbc="reading" in chosen)
        own = {"history", "page-question", "archive", "catching-up"}.issuperset(chosen)
        filled = PER_TRANSACTION if own else changes
        _say(f"a store with {filled:,} changes …")
        with filled_store(filled) as dsn:
            for name in chosen:
                results += _measured(name, dsn, changes)
    except (Failed, StackProblem) as problem:
        _say(str(problem))
        return 1
    except KeyboardInterrupt:
        _say("\nstopped; everything started is gone")
        return 130
    print(f"\n{table(results)}")
    if options.quick:
        _say("\n--quick: too short to conclude from")
    return 0 if all(result.ok for result in results) else 1


def _measured(name: str, dsn: str, changes: int) -> list[Result]:
    """The results of one benchmark; one that breaks is a result too."""
    _say(f"{name} …")
    started = time.monotonic()
    try:
        results = BENCHMARKS[name](dsn, changes)
    except (Failed, StackProblem) as problem:
        results = [Result(name, f"not measured: {str(problem)[-400:]}", "", ok=False)]
    for result in results:
        _say(f"  {result}")
    load, _, _ = os.getloadavg()
    _say(f"  {time.monotonic() - started:.0f} s, load {load:.1f}")
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, and too short to conclude")
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS)
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
