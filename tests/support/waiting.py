"""Waiting for what must come: generous while something moves, for machines that are busy."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

Value = TypeVar("Value")


def wait_for(
    condition: Callable[[], Value], seconds: float = 60.0, what: str | Callable[[], str] = ""
) -> Value:
    """The first true value of ``condition``; when the time is over the test fails with ``what``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    said = what() if callable(what) else what
    pytest.fail(f"not within {seconds} s: {said or condition}")


def wait_while_it_moves(
    condition: Callable[[], Value], position: Callable[[], object], still_seconds: float = 40.0
) -> Value:
    """Return the first true value of ``condition``, waiting as long as ``position`` changes.

    The test fails when ``position`` has stood still for ``still_seconds``.
    """
    last, moved_at = position(), time.monotonic()
    while not (value := condition()):
        if (now := position()) != last:
            last, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > still_seconds:
            pytest.fail(f"stands still at {last} for {still_seconds} s: {condition}")
        time.sleep(0.05)
    return value
