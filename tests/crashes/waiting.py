"""Waiting for what must come: generous while something moves, for machines that are busy."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

Value = TypeVar("Value")


def wait_for(condition: Callable[[], Value], seconds: float = 40.0, what: str = "") -> Value:
    """The first true value of ``condition``; fails the test when the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    pytest.fail(f"not within {seconds} s: {what or condition}")


def wait_while_it_moves(
    condition: Callable[[], Value], position: Callable[[], object], still_seconds: float = 40.0
) -> Value:
    """The same, with the time counted from the last moment at which ``position`` changed."""
    last, moved_at = position(), time.monotonic()
    while not (value := condition()):
        if (now := position()) != last:
            last, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > still_seconds:
            pytest.fail(f"stands still at {last} for {still_seconds} s: {condition}")
        time.sleep(0.05)
    return value
