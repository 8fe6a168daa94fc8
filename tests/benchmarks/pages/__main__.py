"""``make bench-pages``: every page over ten million changes; exit status 0 if all bars are met.

``python -m tests.benchmarks.pages [--data DIR [--reuse]] [--changes N] [--requests N] [--only …]``.
The server and its data are gone when it ends, unless ``--data`` names a folder to keep them in; a
store kept there is reused with ``--reuse`` while generator and migrations are the same.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from replview.runtime.machine import StackProblem
from tests.benchmarks import machine
from tests.benchmarks.pages.scale import Scale
from tests.benchmarks.pages.store import filled_store
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import table


def main() -> int:
    """Fill (or take what is there), ask, report."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _say(machine.describe())
    if warning := machine.warning():
        _say(warning)
    try:
        with tempfile.TemporaryDirectory(prefix="replview-bench-") as temporary:
            folder = options.data or Path(temporary)
            if options.data is None:
                folder.chmod(0o711)
            folder.mkdir(parents=True, exist_ok=True)
            return _measured(folder, options)
    except KeyboardInterrupt:
        _say("\nstopped; everything started is gone")
        return 130
    except (Failed, StackProblem) as problem:
        _say(f"not measured: {problem}")
        return 1


def _measured(folder: Path, options: argparse.Namespace) -> int:
    scale = Scale.of(options.changes)
    _say(f"a record of {scale.changes:,} changes in {scale.transactions:,} transactions …")
    with filled_store(folder, scale, reuse=options.reuse) as what:
        _say(f"  {what}")
        # Django is set up only now.
        from tests.benchmarks.pages.run import measure, roll_up

        results = [*roll_up(_say)]
        if not options.fill_only:
            started = time.monotonic()
            results += measure(scale, options.requests, options.only or [], _say)
            _say(f"  {time.monotonic() - started:.0f} s")
    if not results:
        return 0
    print(f"\n{table(results)}")
    if scale.changes < Scale().changes:
        _say("\nfewer changes than the bars are about")
    return 0 if all(result.ok for result in results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pages", description=__doc__)
    parser.add_argument(
        "--changes", type=int, default=Scale().changes, help="10,000,000 by default"
    )
    parser.add_argument("--data", type=Path, help="keep the store in this folder")
    parser.add_argument("--reuse", action="store_true", help="take the store that is kept there")
    parser.add_argument("--requests", type=int, default=40, help="of each kind")
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="kinds whose names have these")
    parser.add_argument("--fill-only", action="store_true", help="generate, and measure nothing")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
