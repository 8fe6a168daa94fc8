"""Reading the parameters of an address: what cannot be meant is as if it were not given."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.scalars import LSN
from replview.text.parsing import clean_text, whole_number
from replview.ui.params import Params


def test_a_text_is_cut_and_has_no_zero_bytes() -> None:
    asked = Params({"q": " a\0b ", "long": "x" * 300, "none": None})

    assert asked.text("q") == "ab"
    assert asked.text("q", strip=False) == " ab "
    assert len(asked.text("long")) == 200
    assert asked.text("none") == asked.text("missing") == ""


@pytest.mark.parametrize("text", ["", "-1", "1.5", "١", "²", " 7", "9" * 19, "0x1", None])
def test_what_is_no_number_is_as_if_not_given(text: str | None) -> None:
    assert Params({"n": text}).number("n") is None


def test_a_number_has_at_most_so_many_digits() -> None:
    assert Params({"n": "9" * 18}).number("n") == 10**18 - 1
    assert Params({"n": "12345"}).number("n", digits=4) is None


def test_a_choice_is_one_of_the_words() -> None:
    asked = Params({"sort": "last", "range": "ever"})

    assert asked.choice("sort", {"last", "first"}) == "last"
    assert asked.choice("range", {"1d": 1}, "1d") == "1d"


def test_all_letters_are_as_none() -> None:
    assert Params({"ops": "du"}).letters("ops", "IUD") == "UD"
    assert Params({"ops": "uid"}).letters("ops", "IUD") == ""
    assert Params({}).letters("ops", "IUD") == ""


def test_flags_positions_and_moments() -> None:
    asked = Params({"on": "on", "lsn": "0/1B2C3D8", "at": "2026-11-20T07:57:11 02:00", "bad": "x"})

    assert asked.flag("on")
    assert not asked.flag("bad")
    assert asked.lsn("lsn") == LSN.parse("0/1B2C3D8")
    assert asked.lsn("bad") is None
    assert asked.moment("at") == dt.datetime(2026, 11, 20, 5, 57, 11, tzinfo=dt.UTC)
    assert asked.moment("bad") is None


@given(st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text())))
def test_whatever_is_sent_can_be_read(value: object) -> None:
    assert "\0" not in clean_text(value)
    number = whole_number(value)
    assert number is None or 0 <= number < 10**18
