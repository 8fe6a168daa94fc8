"""JSON documents by line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replview.web.json_lines import compared, indented

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
    lines = compared(before, after)

    assert lines is not None
    assert [(line.sign, line.text.strip()) for line in lines] == [
        ("", "{"),
        ("-", '"eta": null,'),
        ("+", '"eta": "2026-11-25",'),
        ("", '"to": {'),
        ("", "4 unchanged lines"),
        ("", '"parcels": 2,'),
        ("+", '"label": "9"'),
        ("", "}"),
    ]
