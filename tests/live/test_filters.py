"""Which transactions a filter lets through."""

import pytest

from replview.live.filters import LiveFilter


@pytest.mark.parametrize(
    ("states", "only_open"),
    [
        ("open", True),
        ("streaming,prepared", True),
        ("open,committed", False),
        ("committed", False),
        ("", False),
    ],
)
def test_it_knows_when_history_need_not_be_searched(states: str, only_open: bool) -> None:
    assert LiveFilter.from_words({"states": states}).only_open is only_open
