"""JSON documents by line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replview.ui.changes.value_diff import compared, indented

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
).filter(lambda document: isinstance(document, dict | list))


@given(DOCUMENTS)
def test_it_is_indented_as_python_would(document: object) -> None:
    text = json.dumps(document)

    assert indented(text) == json.dumps(document, indent=2)


@pytest.mark.parametrize("text", ["", "7", '"x"', "{1,2}", "{", "[" * 5000, "{}x"])
def test_what_is_no_document_stays_as_it_is(text: str) -> None:
    assert indented(text) is None


def test_numbers_and_repeated_members_stay_as_sent() -> None:
    assert indented('{"a":1.10,"a":1e400}') == '{\n  "a": 1.10,\n  "a": 1e400\n}'


def test_only_what_differs_is_shown_whole() -> None:
    before = '{"eta": null, "to": {"city": "Berlin", "street": "x", "code": "1"}, "parcels": 2}'
    after = before.replace("null", '"2026-11-25"').replace("2}", '2, "label": "9"}')
    found = compared(before, after)

    assert found is not None
    assert found.words == "1 line changed, 1 added"
    assert [(line.sign, line.text.strip()) for line in found.lines] == [
        ("", "{"),
        ("-", '"eta": null,'),
        ("+", '"eta": "2026-11-25",'),
        ("", '"to": {'),
        ("", "4 unchanged lines"),
        ("", '"parcels": 2,'),
        ("+", '"label": "9"'),
        ("", "}"),
    ]


def test_lines_keep_both_their_numbers() -> None:
    found = compared('{"a": 1, "b": 2, "c": 3}', '{"b": 2, "c": 4, "d": 5}')

    assert found is not None
    assert [(line.old, line.new, line.sign) for line in found.lines] == [
        (1, 1, ""),
        (2, None, "-"),
        (3, 2, ""),
        (4, None, "-"),
        (None, 3, "+"),
        (None, 4, "+"),
        (5, 5, ""),
    ]


def test_only_the_part_of_a_line_that_differs_is_marked() -> None:
    found = compared('{"state": "draft", "x": 1}', '{"state": "sent", "x": 1}')

    assert found is not None
    assert [(p.sign, p.text) for p in found.lines[2].pieces] == [
        ("", '  "state": "'), ("+", "sent"), ("", '"'), ("", ","),
    ]  # fmt: skip
