"""Times and type names as the server writes them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.plugins.test_decoding import without_modifier
from decoder.scalars import INFINITY_US, MINUS_INFINITY_US, us_from_datetime, us_from_text


@given(
    moment=st.datetimes(),
    offset_seconds=st.integers(-15 * 3600, 15 * 3600),
)
def test_a_time_is_what_datetime_says(moment: datetime, offset_seconds: int) -> None:
    zone = timezone(timedelta(seconds=offset_seconds))

    assert us_from_text(str(moment.replace(tzinfo=zone))) == us_from_datetime(
        moment.replace(tzinfo=zone)
    )


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("infinity", INFINITY_US),
        ("-infinity", MINUS_INFINITY_US),
        ("2000-01-01 00:00:00+00", 0),
        ("1999-12-31 23:59:59.5-00:00:01", 500_000),
        (
            "2026-11-20 13:31:06.77+05:30",
            us_from_datetime(datetime(2026, 11, 20, 8, 1, 6, 770_000, UTC)),
        ),
        # PostgreSQL counts these as extract(epoch from …) - 946684800.
        ("294276-12-31 23:59:59.999999+00", 9_223_371_331_199_999_999),
        ("4714-11-24 00:00:00+00 BC", -211_813_488_000_000_000),
    ],
)
def test_a_time_in_microseconds(text: str, time_us: int) -> None:
    assert us_from_text(text) == time_us


@pytest.mark.parametrize(
    "text",
    ["", "now", "2000-01-01", "2000-01-01 00:00:00", "2000-13-01 00:00:00+00", "2000-1-1 0:0+00"],
)
def test_another_text_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(not|no) "):
        us_from_text(text)


@given(text=st.text("0123456789-:+ .BC", max_size=40))
def test_any_text_is_a_time_or_raises_value_error(text: str) -> None:
    with suppress(ValueError):
        us_from_text(text)


@pytest.mark.parametrize(
    ("name", "type_oid", "expected"),
    [
        ("numeric(12,2)[]", 0, "numeric[]"),
        ("timestamp(3) without time zone", 0, "timestamp without time zone"),
        ('"Odd (s)"."m""(y)"(1,2)[]', 0, '"Odd (s)"."m""(y)"[]'),
        ("integer", 0, "integer"),
        ("interval day to second(2)", 1186, "interval"),
        ("bpchar", 1042, "character"),
    ],
)
def test_a_type_without_its_modifier(name: str, type_oid: int, expected: str) -> None:
    assert without_modifier(name, type_oid) == expected
