"""Patterns with stars: what they match, and that many stars cost no more than few."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from replview.store.read.mask_rules import glob


@given(pattern=st.text("ab*.", max_size=8), name=st.text("ab.\n", max_size=9))
def test_a_star_is_anything_and_all_else_is_itself(pattern: str, name: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL)

    assert bool(glob(pattern).fullmatch(name)) == bool(expected)


def test_a_pattern_of_many_stars_is_answered_at_once() -> None:
    began = time.perf_counter()
    assert not glob("*a" * 60 + "*b").fullmatch("a" * 127)
    assert time.perf_counter() - began < 1
