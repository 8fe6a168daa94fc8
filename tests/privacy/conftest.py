"""Rules that one test makes are remembered by no other."""

from collections.abc import Iterator

import pytest

from replview.store.read import visibility as sight


@pytest.fixture(autouse=True)
def remembered_by_nobody() -> Iterator[None]:
    """Readers without a request remember the rules for some seconds."""
    sight.forget()
    yield
    sight.forget()
