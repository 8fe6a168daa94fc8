"""Rules that one test makes are remembered by no other."""

from collections.abc import Iterator

import pytest

from replview.access import visibility


@pytest.fixture(autouse=True)
def remembered_by_nobody() -> Iterator[None]:
    """Readers without a request remember the rules for some seconds."""
    visibility.forget()
    yield
    visibility.forget()
