"""The tests that CI leaves out of its main run, in seven shares: CI runs one of them a day.

They are marked ``long`` or ``own_jvm``. A module stays whole, since its tests share servers; the
seconds that each takes spread the modules evenly over the shares.
"""

import datetime as dt
from collections.abc import Iterable

import pytest

SHARES = 7
#: What a module's marked tests take together, in seconds of one of four workers on two cores.
SECONDS = {
    "tests/browser/test_accessibility.py": 55,
    "tests/browser/test_first_run.py": 40,
    "tests/crashes/test_celery_crashes.py": 45,
    "tests/crashes/test_network.py": 50,
    "tests/demo/test_stack.py": 35,
    "tests/features/exports/test_archive_killed.py": 75,
    "tests/features/trouble/test_alerted.py": 85,
    "tests/spark/test_deleted_days.py": 55,
    "tests/spark/test_engines.py": 120,
    "tests/spark/test_executors.py": 125,
    "tests/spark/test_one_history.py": 210,
    "tests/store/read/test_histories.py": 130,
}
#: A module that is not listed counts as this.
_USUAL_SECONDS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--share``."""
    parser.addoption(
        "--share", choices=["today", *map(str, range(1, SHARES + 1))],
        help="run only this share of the tests that CI's main run leaves out",
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the share that is asked for.

    Failed tests that run once more are of that share already; the others are not collected then.
    """
    share = config.getoption("--share")
    if share is None or config.getoption("--last-failed"):
        return
    chosen = in_share(items, today() if share == "today" else int(share))
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen


def is_left_out(item: pytest.Item) -> bool:
    """Return whether CI's main run leaves this test out."""
    return any(item.get_closest_marker(name) for name in ("long", "own_jvm"))


def today() -> int:
    """Return the number of the share, from 1 to 7, that runs on this day."""
    return dt.datetime.now(tz=dt.UTC).toordinal() % SHARES + 1


def share_of_modules(modules: Iterable[str]) -> dict[str, int]:
    """Return the share of each module: the longest first, each into the share with least to do."""
    seconds = {module: SECONDS.get(module, _USUAL_SECONDS) for module in modules}
    loads = dict.fromkeys(range(1, SHARES + 1), 0)
    shares = {}
    for module in sorted(seconds, key=lambda module: (-seconds[module], module)):
        share = min(loads, key=lambda number: (loads[number], number))
        shares[module] = share
        loads[share] += seconds[module]
    return shares


def in_share(items: list[pytest.Item], share: int) -> list[pytest.Item]:
    """Return the tests of one share; ``items`` must be all tests, or the shares differ."""
    left_out = [item for item in items if is_left_out(item)]
    shares = share_of_modules({item.nodeid.split("::")[0] for item in left_out})
    return [item for item in left_out if shares[item.nodeid.split("::")[0]] == share]
