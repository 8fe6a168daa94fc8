"""Versions compared: what is told of columns, and what is called likely."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replview.text.formats import short_type
from replview.ui.versions import (
    CarriedValues,
    ComparedVersion,
    VersionColumn,
    compare,
    rename_candidates,
    summary,
)

INT, TEXT, CUSTOM = (20, -1), (25, -1), (16400, -1)


def shape(*columns: Any, **values: Any) -> ComparedVersion:
    """``shape(("id", INT), ("note", TEXT))``; known by id."""
    known = {"number": 1, "schema": "public", "table": "orders", "replica_identity": "DEFAULT",
             "key_columns": ("id",)}  # fmt: skip
    made = tuple(VersionColumn(name, str(kind), kind, name == "id") for name, kind in columns)
    return ComparedVersion(columns=made, **(known | values))


ID, A, B, C = ("id", INT), ("a", TEXT), ("b", TEXT), ("c", INT)


def kinds(before: ComparedVersion, after: ComparedVersion, **more: Any) -> dict[str, str]:
    """Column → kind, of those that are not the same."""
    return {
        (row.after or row.before).name: row.kind  # type: ignore[union-attr]
        for row in compare(before, after, **more).changed
    }


def test_added_and_dropped() -> None:
    assert kinds(shape(ID, A), shape(ID, A, C)) == {"c": "added"}
    assert kinds(shape(ID, A, B), shape(ID, B)) == {"a": "dropped"}


def test_a_new_name_at_the_same_place_is_likely_renamed() -> None:
    diff = compare(shape(ID, ("memo", TEXT), C), shape(ID, ("note", TEXT), C))

    (row,) = diff.changed
    assert (row.kind, row.before.name, row.after.name) == ("renamed", "memo", "note")  # type: ignore[union-attr]
    assert "between id and c" in row.evidence
    assert summary(shape(ID), shape(ID)) == "the same again"


def test_another_type_at_the_same_place_is_no_rename() -> None:
    diff = compare(shape(ID, ("coupon", TEXT)), shape(ID, ("discount", INT)))

    assert [row.kind for row in diff.changed] == ["dropped", "added"]
    assert {row.evidence for row in diff.changed} == {"not renamed: types differ"}


def test_the_last_column_may_as_well_be_dropped_and_added() -> None:
    (row,) = compare(shape(ID, A), shape(ID, B)).changed

    assert row.kind == "renamed"
    assert "it may have been dropped and added" in row.evidence


def test_several_at_the_end_are_told_apart_by_nobody() -> None:
    diff = compare(shape(ID, A, B), shape(ID, ("x", TEXT), ("y", TEXT)))

    assert {row.kind for row in diff.changed} == {"added", "dropped"}
    assert all("cannot be detected" in row.evidence for row in diff.changed)


def test_several_before_a_column_that_stayed_are_renamed_in_order() -> None:
    after = shape(ID, ("x", TEXT), ("y", TEXT), C)

    assert rename_candidates(shape(ID, A, B, C), after) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(("equal", "kind"), [(0, "dropped"), (4, "renamed")])
def test_values_of_stored_rows_decide(equal: int, kind: str) -> None:
    carried = {("a", "b"): CarriedValues(compared=4, equal=equal)}
    row = compare(shape(ID, A), shape(ID, B), carried).changed[0]

    assert row.kind == kind
    assert "4 rows changed on both sides" in row.evidence


def test_types_with_their_modifiers() -> None:
    before = ComparedVersion(
        1, "public", "t", "FULL", (VersionColumn("n", "numeric(10,2)", (1700, 655366)),)
    )
    after = ComparedVersion(
        2, "public", "t", "FULL", (VersionColumn("n", "numeric(12,2)", (1700, 786438)),)
    )

    (row,) = compare(before, after).changed
    assert row.words == ("type changed",)
    assert row.evidence == "same type, another modifier"
    assert summary(before, after) == "n numeric(10,2) → numeric(12,2)"


def test_a_custom_type_is_named_so() -> None:
    (row,) = compare(shape(ID, ("a", TEXT)), shape(ID, ("a", CUSTOM))).changed

    assert row.evidence == "a custom type"


def test_a_column_that_moved_was_dropped_and_added() -> None:
    (row,) = compare(shape(ID, A, B, C), shape(ID, B, C, A)).changed

    assert row.after is not None
    assert row.after.name == "a"
    assert row.words == ("moved",)


def test_the_table_as_a_whole() -> None:
    after = shape(ID, A, schema="sales", table="deals", replica_identity="FULL", key_columns=())
    diff = compare(shape(ID, A), after)

    assert {(c.what, c.before, c.after) for c in diff.table} == {
        ("replica identity", "DEFAULT", "FULL"),
        ("schema", "public", "sales"),
        ("name", "orders", "deals"),
        ("rows known by", "id", "none"),
    }


def test_a_line_tells_what_changed() -> None:
    before = shape(ID, ("status", TEXT), ("coupon_code", TEXT))
    after = shape(ID, ("status", CUSTOM), ("discount", INT))

    assert summary(None, before) == "first seen"
    assert summary(before, after) == "status type, − coupon_code, + discount"
    assert summary(shape(ID), shape(ID, ("shipping", TEXT))).startswith("+ shipping (25")


def test_counts_leave_zeros_out() -> None:
    diff = compare(shape(ID, A, B), shape(ID, ("a", CUSTOM), B, C))

    assert diff.counts() == [(1, "added"), (1, "type"), (2, "same")]


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("character varying(40)", "varchar(40)"),
        ("timestamp(3) with time zone", "timestamptz(3)"),
        ("timestamp with time zone[]", "timestamptz[]"),
        ("time without time zone", "time"),
        ("public.order_status", "order_status"),
        ("numeric(12,2)", "numeric(12,2)"),
    ],
)
def test_types_in_short(long: str, short: str) -> None:
    assert short_type(long) == short


columns = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([INT, TEXT, CUSTOM])),
    unique_by=lambda column: column[0],
    max_size=8,
)


@given(before=columns, after=columns)
def test_every_column_is_told_once_on_each_side(before: Any, after: Any) -> None:
    diff = compare(shape(*before), shape(*after))

    assert sorted(row.before.name for row in diff.rows if row.before) == sorted(
        name for name, _ in before
    )
    assert [row.after.name for row in diff.rows if row.after and row.kind == "same"] == [
        name for name, kind in after if (name, kind) in before
        and name in {row.after.name for row in diff.rows if row.kind == "same" and row.after}
    ]  # fmt: skip
    assert sorted(row.after.name for row in diff.rows if row.after) == sorted(n for n, _ in after)
    for row in diff.rows:
        if row.kind == "renamed":
            assert row.before is not None
            assert row.after is not None
            assert row.before.type_id == row.after.type_id


@given(before=columns, after=columns)
def test_backwards_it_is_the_opposite(before: Any, after: Any) -> None:
    # In one order, as PostgreSQL keeps it: which of several moved is a matter of choice.
    one, other = shape(*sorted(before)), shape(*sorted(after))
    there, back = compare(one, other), compare(other, one)

    def of(diff: Any, kind: str) -> int:
        return sum(row.kind == kind for row in diff.rows)

    assert of(there, "added") == of(back, "dropped")
    assert of(there, "renamed") == of(back, "renamed")
    assert there.same == back.same


@given(columns)
def test_the_same_is_no_difference(both: Any) -> None:
    assert compare(shape(*both), shape(*both)).changed == []
