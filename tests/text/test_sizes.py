"""Typed sizes: read by PostgreSQL's units, and written so that they are read back exactly."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replview.text.sizes import exact_size, limit_text, parse_limit, parse_size

GB = 1 << 30


@pytest.mark.parametrize(
    ("text", "size"),
    [("10GB", 10 * GB), (" 1.5 gb ", 3 * GB // 2), ("512MB", GB // 2), ("8kB", 8192), ("7B", 7),
     ("10.1GB", 10844792422)],
)  # fmt: skip
def test_sizes_have_postgresqls_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "10", "GB", "-1GB", "1,5GB", "1.GB", "10 XB", "٣GB"])
def test_what_is_no_size_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is no size: write 500MB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(10 * GB, "10GB"), (3 * GB // 2, "1.5GB"), (1100 << 20, "1100MB"), (10844792422, "10.1GB"),
     (GB + 1, "1073741825B"), (0, "0B")],
)  # fmt: skip
def test_a_size_is_written_in_its_shortest_exact_form(size: int, text: str) -> None:
    assert exact_size(size) == text


@given(size=st.integers(0, (1 << 62) - 1))
@example(size=(1 << 53) + 1)
def test_a_written_size_is_read_back_exactly(size: int) -> None:
    assert parse_size(exact_size(size)) == size


@pytest.mark.parametrize("limit", [None, 1, 50 * GB])
def test_a_written_limit_is_read_back(limit: int | None) -> None:
    assert parse_limit(limit_text(limit)) == limit


@pytest.mark.parametrize("text", ["0B", "4096PB", "9999999999999999999PB"])
def test_a_limit_is_above_zero_and_fits_the_store(text: str) -> None:
    with pytest.raises(ValueError, match="a limit is a size above zero"):
        parse_limit(text)
