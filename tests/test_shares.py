"""CI runs some tests every time, and each day a share of the others."""

from types import SimpleNamespace
from typing import Any

from tests.support.shares import SECONDS, SHARES, in_share, longest_first

LONGEST = max(SECONDS, key=lambda module: SECONDS[module])
MODULES = [*(f"test_{number}.py" for number in range(2 * SHARES)), LONGEST]


def collected(module: str, *marks: str, **more: int) -> Any:
    """Return a test as far as its share depends on it."""
    name = "left_out" if marks else "every_time"
    found = {mark: SimpleNamespace(kwargs=more) for mark in marks}
    return SimpleNamespace(nodeid=f"{module}::{name}", get_closest_marker=found.get)


TESTS = [collected("test_a.py")]
for number, module in enumerate(MODULES):
    TESTS += [collected(module), collected(module, ("long", "own_jvm")[number % 2])]
DAYS = [[test.nodeid for test in in_share(TESTS, share)] for share in range(1, SHARES + 1)]


def test_a_test_is_in_one_share_or_runs_every_time() -> None:
    for test in TESTS:
        days = sum(test.nodeid in day for day in DAYS)
        assert days == (SHARES if "every_time" in test.nodeid else 1), test.nodeid


def test_a_test_that_names_a_share_is_in_that_one() -> None:
    tests = [collected("test_a.py", "long", share=share) for share in (2, 5, 2)]
    assert in_share(tests, 2) == [tests[0], tests[2]]
    assert in_share(tests, 5) == [tests[1]]
    assert not in_share(tests, 1)


def test_the_modules_of_a_share_come_first_and_whole_the_longest_before_the_others() -> None:
    day = [test.nodeid for test in longest_first(in_share(TESTS, 1))]

    modules = [name.split("::")[0] for name in day if "left_out" in name]
    assert modules[0] == LONGEST
    whole = [f"{module}::{name}" for module in modules for name in ("every_time", "left_out")]
    assert day[: len(whole)] == whole
