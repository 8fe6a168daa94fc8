"""``make bench``: what the product must reach, measured; exit status 0 only if all of it is met.

``python -m tests.benchmarks [--quick] [--no-fsync] [--only NAME …]``. Each benchmark starts servers
of its own on free ports and in temporary folders; they are gone when it ends, also after Ctrl-C.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable

from replview.runtime.machine import StackProblem
from tests.benchmarks import (
    bench_servers,
    debezium,
    decoding,
    idle,
    in_flight_page,
    latency,
    lines,
    machine,
    masked,
    memory,
    recovery,
    savepoints,
    segments,
    throughput,
    watched,
)
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result, table

BENCHMARKS: dict[str, Callable[..., list[Result]]] = {
    "hundred-rows": throughput.hundred_rows,
    "one-row": throughput.one_row,
    "debezium": debezium.against_debezium,
    "masked": masked.two_columns,
    "decode": decoding.decoder_alone,
    "segments": segments.of_one_table,
    "memory": memory.one_large_transaction,
    "large-values": memory.large_values,
    "versions": memory.many_versions,
    "savepoints": savepoints.with_savepoints,
    "recovery": recovery.after_losing_a_receiver,
    "latency": latency.commit_to_socket,
    "watched": watched.with_and_without_browsers,
    "lines": lines.changes_command,
    "in-flight-page": in_flight_page.thousand_prepared,
    "idle": idle.one_quiet_source,
}


def main() -> int:
    """Run what was asked for; 0 only if every bar is met."""
    options = _options()
    signal.signal(signal.SIGINT, _stop_once)
    signal.signal(signal.SIGTERM, _stop_once)
    _say(machine.describe())
    if options.no_fsync:
        bench_servers.STORE["fsync"] = "off"
        _say("--no-fsync: the store does not flush; not what the bars are about")
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
        results = [Result(name, f"not measured: {problem}", "", ok=False)]
    for result in results:
        _say(f"  {result}")
    _say(f"  {time.monotonic() - started:.0f} s")
    return results


def _stop_once(signum: int, frame: object) -> None:
    """Stop at the first signal; later ones would only interrupt the cleaning up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say("\nstopping what was started …")
    raise KeyboardInterrupt


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, and too short to conclude")
    parser.add_argument(
        "--no-fsync", action="store_true", help="a store that never flushes: what the disk costs"
    )
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS)
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
