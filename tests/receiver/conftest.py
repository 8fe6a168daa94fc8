"""Slots of either interface, and names that tests of the receiver may take."""

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.recording import Recording

#: Runs a test that records through a walsender and through the SQL interface: nothing may differ.
#: Each takes its seconds, so that make test-fast leaves the second one out.
BOTH_INTERFACES = pytest.mark.parametrize(
    "record", ["walsender", pytest.param("sql", marks=pytest.mark.slow)], indirect=True
)
_numbers = itertools.count(1)


@pytest.fixture
def record(
    record: Callable[..., Recording], request: pytest.FixtureRequest
) -> Callable[..., Recording]:
    """Record through the interface that ``BOTH_INTERFACES`` chose, or else the default one."""
    return partial(record, interface=request.param) if hasattr(request, "param") else record


def unused(name: str) -> str:
    """A name for a database that no other test of this run has taken."""
    return f"{name}_{next(_numbers)}"
