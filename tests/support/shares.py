"""The tests that CI does not run every time, in seven shares: CI runs one of them a day.

They are marked ``long`` or ``own_jvm``. A module stays whole, since its tests share servers; the
seconds that each takes spread the modules evenly over the shares. A test that would take a share's
time alone names its own: ``long(share=3)``.
"""

import datetime as dt
from collections.abc import Generator, Iterable

import pytest

SHARES = 7
#: The time that a module's marked tests take together, in seconds of one of four workers on two
#: cores.
SECONDS = {
    "tests/browser/test_accessibility.py": 55,
    "tests/browser/test_first_run.py": 40,
    "tests/crashes/test_celery_crashes.py": 45,
    "tests/crashes/test_network.py": 50,
    "tests/demo/test_stack.py": 35,
    "tests/features/exports/test_object_store.py": 110,
    "tests/features/trouble/test_alerted.py": 85,
    "tests/spark/test_cluster.py": 120,
    "tests/spark/test_connect.py": 65,
    "tests/spark/test_deleted_days.py": 55,
    "tests/spark/test_engines.py": 120,
    "tests/spark/test_executors.py": 80,
    "tests/spark/test_history.py": 60,
    "tests/spark/lake/test_command.py": 180,
    "tests/spark/lake/test_current.py": 240,
    "tests/spark/lake/test_erased_lakes.py": 120,
    "tests/spark/lake/test_erasing.py": 250,
    "tests/spark/lake/test_feeding.py": 60,
    "tests/spark/lake/test_job.py": 220,
    "tests/spark/lake/test_object_store.py": 300,
    "tests/spark/lake/test_programs.py": 60,
    "tests/spark/test_newest_pyspark.py": 60,
    "tests/spark/test_one_history.py": 210,
    "tests/store/read/test_histories.py": 130,
}
#: A module that is not listed counts as this.
_USUAL_SECONDS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--share``."""
    parser.addoption(
        "--share", choices=["today", *map(str, range(1, SHARES + 1))],
        help="leave out long tests and those with a JVM of their own, but for this share of them",
    )  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Keep the tests of the share that is asked for, and those that run every time.

    Failed tests that run once more were kept already; the others are not collected then.
    """
    share = config.getoption("--share")
    if share is None or config.getoption("--last-failed"):
        return (yield)
    chosen = in_share(items, today() if share == "today" else int(share))
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen
    # pytest-django sorts tests, too.
    yield
    items[:] = longest_first(items)


def is_left_out(item: pytest.Item) -> bool:
    """Return whether CI leaves this test out on all days but one of seven."""
    return any(item.get_closest_marker(name) for name in ("long", "own_jvm"))


def today() -> int:
    """Return the number of the share, from 1 to 7, that runs on this day."""
    return dt.datetime.now(tz=dt.UTC).toordinal() % SHARES + 1


def share_of_modules(modules: Iterable[str]) -> dict[str, int]:
    """Return the share of each module: the longest first, each into the share with least to do."""
    loads = dict.fromkeys(range(1, SHARES + 1), 0)
    shares = {}
    for module in sorted(modules, key=lambda module: (-_seconds(module), module)):
        share = min(loads, key=lambda number: (loads[number], number))
        shares[module] = share
        loads[share] += _seconds(module)
    return shares


def in_share(items: list[pytest.Item], share: int) -> list[pytest.Item]:
    """Return the tests that run every time, and those of one share.

    ``items`` must be all tests, or the shares differ.
    """
    shares = share_of_modules({_module(item) for item in items if is_left_out(item)})
    return [
        item
        for item in items
        if not is_left_out(item) or (_own_share(item) or shares[_module(item)]) == share
    ]


def _own_share(item: pytest.Item) -> int | None:
    """Return the share that a test names; None: it goes with its module."""
    marker = item.get_closest_marker("long")
    return None if marker is None else marker.kwargs.get("share")


def longest_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with the modules of the share first, the longest before the others.

    Side by side, none of them is what all wait for at the end.
    """
    first = {_module(item): _seconds(_module(item)) for item in items if is_left_out(item)}
    return sorted(items, key=lambda item: -first.get(_module(item), 0))


def _module(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _seconds(module: str) -> int:
    return SECONDS.get(module, _USUAL_SECONDS)
