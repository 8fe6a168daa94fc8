"""The words of a condition on values: what they mean, and that nothing typed is misunderstood."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replview.store.read.value_filter import Condition, TextValue, ValueFilter, WhereProblem

ANY = None


def one(text: str) -> Condition:
    (condition,) = ValueFilter.parse(text).conditions
    return condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("status = paid", Condition("status", "=", TextValue("paid"))),
        ("amount>=100.50", Condition("amount", ">=", TextValue("100.50"))),
        ("a <> b", Condition("a", "!=", TextValue("b"))),
        ("note ~ at the door", Condition("note", "~", TextValue("at the door"))),
        ("note = 'salt and pepper'", Condition("note", "=", TextValue("salt and pepper"))),
        ("note = 'it''s'", Condition("note", "=", TextValue("it's"))),
        ("note = ''", Condition("note", "=", TextValue(""))),
        ("note = 'null'", Condition("note", "=", TextValue("null"))),
        ("note = null", Condition("note", "is null")),
        ("note != NULL", Condition("note", "is not null")),
        ("note IS  NULL", Condition("note", "is null")),
        ("note is not null", Condition("note", "is not null")),
        ('"odd name" = x', Condition("odd name", "=", TextValue("x"))),
        ('"a""b" changed', Condition('a"b', "changed")),
        ("status changed", Condition("status", "changed")),
        (
            "status: pending -> paid",
            Condition("status", "->", TextValue("paid"), TextValue("pending")),
        ),
        (
            "status: pending → paid",
            Condition("status", "->", TextValue("paid"), TextValue("pending")),
        ),
        ("status: * -> paid", Condition("status", "->", TextValue("paid"), ANY)),
        ("status: null->*", Condition("status", "->", ANY, TextValue(None))),
        ("status: '*' -> 'a -> b'", Condition("status", "->", TextValue("a -> b"), TextValue("*"))),
        ("status: * -> *", Condition("status", "changed")),
        (
            "created_at > 2026-11-20 07:57",
            Condition("created_at", ">", TextValue("2026-11-20 07:57")),
        ),
        ("changed = 1", Condition("changed", "=", TextValue("1"))),
    ],
)
def test_what_is_typed(text, condition) -> None:
    assert one(text) == condition


def test_several_joined_by_and() -> None:
    found = ValueFilter.parse("status changed AND amount > 100 and s: a -> b and note is null")
    assert [c.operator for c in found.conditions] == ["changed", ">", "->", "is null"]
    assert found.columns == ["status", "amount", "s", "note"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("status", "after status comes"),
        ("status =", "a value is missing after status"),
        ("= paid", "a column's name is missing"),
        ("note = salt and pepper", "after pepper comes"),
        ("note = 'open", "is not closed"),
        ("note = 'a' b", "joined by “and”"),
        ("status: paid", "old -> new"),
        ("a > null", "neither more nor less"),
        ("a = b\0", "zero byte"),
        ("a = " + "b" * 3000, "at most 2000"),
        (" and ".join(["a = b"] * 11), "at most 10"),
    ],
)
def test_what_is_not_understood_is_said(text, cause) -> None:
    with pytest.raises(WhereProblem, match=cause):
        ValueFilter.parse(text)


def test_nothing_typed_lets_everything_through() -> None:
    assert not ValueFilter.parse("  ")


_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
_columns = _texts.filter(bool)
_values = st.builds(TextValue, st.none() | _texts)
_plain = st.builds(
    Condition, _columns, st.sampled_from(["=", "!=", "<", ">=", "~"]), st.builds(TextValue, _texts)
)
_moved = st.builds(Condition, _columns, st.just("->"), _values, _values | st.none())
_stated = st.builds(Condition, _columns, st.sampled_from(["changed", "is null", "is not null"]))


@given(st.lists(_plain | _moved | _stated, min_size=1, max_size=4))
def test_what_is_written_is_read_back(conditions) -> None:
    wanted = ValueFilter(tuple(conditions))
    assert ValueFilter.parse(str(wanted)) == wanted


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_an_error(text) -> None:
    with suppress(WhereProblem):
        ValueFilter.parse(text)
