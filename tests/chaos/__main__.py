"""``make chaos``: seeds under faults; exit status 0 only if every record was true.

``python -m tests.chaos [--seeds 1-20] [--seed 7] [--version 18] [--interface walsender]``. Seed n
runs on the n-th of the four combinations of PostgreSQL 18 and 16 with the walsender and the SQL
interface, the first four on bare receivers, the next four on Celery, and so on in turn. Servers of
its own, on free ports, in temporary folders; all gone at the end, also after Ctrl-C.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from tests.support import server_programs

VERSIONS = (18, 16)
INTERFACES = ("walsender", "sql")


def main() -> int:
    """Run the seeds that were asked for."""
    options = _options()
    signal.signal(signal.SIGTERM, _stop_once)
    signal.signal(signal.SIGINT, _stop_once)
    _set_django_up()
    from tests.chaos.report import line, summary
    from tests.chaos.seed_run import run_seed
    from tests.support.run_folder import run_folder

    outcomes = []
    try:
        with run_folder():
            for seed in options.seed or _numbers(options.seeds):
                combination = _combination(seed, options)
                _say(f"{combination.arguments}")
                outcome = run_seed(combination, _say)
                outcomes.append(outcome)
                _say(line(outcome))
    except KeyboardInterrupt:
        _say("stopped; everything started is gone")
        return 130
    print(summary(outcomes), flush=True)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def _combination(seed: int, options: argparse.Namespace):
    from tests.chaos.seed_run import Combination

    interfaces: Sequence[str] = options.interface or INTERFACES
    versions: Sequence[int] = options.version or VERSIONS
    workers = options.workers or ("celery" if (seed - 1) // 4 % 2 else "bare")
    place = seed - 1
    return Combination(
        seed=seed,
        version=versions[place % len(versions)],
        interface=interfaces[place // len(versions) % len(interfaces)],
        celery=workers == "celery",
        hits=options.hits,
        seconds=options.seconds,
    )


def _set_django_up() -> None:
    """Models can be imported then; which store they are read from is settled with each seed."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "replview.settings"
    os.environ["REPLVIEW_STORE_URL"] = "postgresql://127.0.0.1/none"
    import django

    django.setup()


def _numbers(text: str) -> list[int]:
    """``1-20`` or ``3,7,9-12``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _stop_once(signum: int, frame: object) -> None:
    """Stop at the first signal; later ones would only interrupt the cleaning up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say("stopping what was started …")
    raise KeyboardInterrupt


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", default="1-20", help="which, as 1-20 or 3,7 (default: 1-20)")
    parser.add_argument("--seed", type=int, action="append", help="one seed; may be repeated")
    parser.add_argument("--version", type=int, action="append", choices=server_programs.VERSIONS)
    parser.add_argument("--interface", action="append", choices=INTERFACES)
    parser.add_argument("--workers", choices=["bare", "celery"])
    parser.add_argument("--hits", type=int, default=6, help="faults that must hit (default: 6)")
    parser.add_argument(
        "--seconds", type=float, default=30, help="how long the workload runs at least"
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
