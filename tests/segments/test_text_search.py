"""What PostgreSQL finds by ILIKE in a value passes the test, whatever the store's locale."""

import itertools

import orjson
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given

from replview.segments.text_search import may_contain
from replview.store.read.seen import pattern_of
from tests.segments.random_changes import TEXTS

#: Letters that some locale folds together, what JSON escapes, what a pattern or a mark may mean.
_AWKWARD = 'iIİıÌíkK\u212asSſßẞåÅ\u212bσςΣжЖǆǅ\u0307\u0300xX "\\/\n\x01\x7f%_.*[{$:,é😀'
_FOUND = """
    SELECT n FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS w (image, pattern, n)
    WHERE EXISTS (SELECT FROM jsonb_each_text(image::jsonb) v
                  WHERE v.value COLLATE "{collation}" ILIKE pattern)
"""


def _image(value: object) -> str:
    return orjson.dumps({"v": value}).decode()


def _passes(image: str, text: str) -> bool:
    return bool(may_contain(pa.chunked_array([[image]]), text)[0].as_py())


def _pairs() -> list[tuple[str, str]]:
    """Return values, each with a text to search for: their characters in every case."""
    texts = [*_AWKWARD, *map("".join, itertools.product(_AWKWARD, repeat=2))]
    cases = (str, str.upper, str.lower, str.casefold)
    values = {f"a{case(text)}b" for text in texts for case in (str, str.upper)}
    pairs = {(value, case(value[1:-1])) for value in values for case in cases}
    return sorted(pairs | {(f"a{a}b", b) for a in _AWKWARD for b in _AWKWARD})


def _lost(dsn: str, collation: str) -> list[tuple[str, str]]:
    """Return the pairs that the server finds and the test does not."""
    pairs = _pairs()
    images = [_image(value) for value, _ in pairs]
    patterns = [pattern_of(text) for _, text in pairs]
    with psycopg.connect(dsn) as session:
        found = session.execute(_FOUND.format(collation=collation), [images, patterns]).fetchall()
    assert len(found) > len(pairs) / 4
    return [pairs[n - 1] for (n,) in found if not _passes(images[n - 1], pairs[n - 1][1])]


@pytest.mark.parametrize("collation", ["C", "default", "pg_c_utf8", "pg_unicode_fast"])
def test_nothing_is_lost_that_postgresql_finds(source_cluster_18, collation) -> None:
    assert _lost(source_cluster_18.dsn(), collation) == []


@pytest.mark.parametrize("collation", ["und-x-icu", "tr-x-icu", "lt-x-icu"])
def test_nothing_is_lost_that_postgresql_finds_with_icu(source_cluster_15, collation) -> None:
    assert _lost(source_cluster_15.dsn(), collation) == []


def test_marks_and_numbers_pass_as_postgresql_prints_them(source_cluster_18) -> None:
    document = {
        "v": {"$aside": 12},
        "w": {"$too_large": 5, "$sha256": "0"},
        "x": {"$binary": "AP8=", "$type": 1033},
        "y": {"$masked": True},
    }
    image = orjson.dumps(document).decode()
    query = "SELECT value FROM jsonb_each_text(%s::jsonb)"
    with psycopg.connect(source_cluster_18.dsn()) as session:
        printed = [value for (value,) in session.execute(query, [image])]

    assert len(printed) == 4
    parts = {value[a:b] for value in printed for b in range(len(value) + 1) for a in range(b)}
    assert [part for part in parts if not _passes(image, part)] == []


@given(TEXTS, TEXTS, TEXTS)
def test_a_value_with_the_text_passes(before, text, after) -> None:
    assert _passes(_image(before + text + after), text)


@pytest.mark.parametrize(
    ("value", "text"),
    [("paid", "pending"), ("ring once", "ring twice"), ("Skopje", "Skipje"), ("a", 'a"b')],
)
def test_most_other_values_do_not_pass(value, text) -> None:
    assert not _passes(_image(value), text)


def test_an_image_that_is_not_there_does_not_pass() -> None:
    images = pa.chunked_array([pa.array([None, "{}"], pa.string())])

    assert may_contain(images, "é").to_pylist() == [False, True]
    assert may_contain(images, "{").to_pylist() == [False, True]
