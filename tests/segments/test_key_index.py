"""A key index finds every row group with changes of a row, and hardly another."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replview.segments.key_index import (
    GroupPlace,
    KeyIndexPart,
    build,
    merged,
    part_of,
    row_hash,
)
from replview.segments.layout import table_of
from replview.segments.reading import SegmentReader
from replview.segments.writing import write_segment
from tests.segments.random_changes import FEW, HASHES, changes

_KEYS = st.lists(st.tuples(FEW, st.none() | HASHES, st.none() | HASHES), min_size=1, max_size=20)
_PLACES = st.builds(GroupPlace, st.integers(1, 1 << 40), st.integers(0, 65_535))
_GROUPS = st.dictionaries(_PLACES, _KEYS, max_size=6)


def _columns(keys) -> pa.Table:
    schema = pa.schema([(name, pa.int64()) for name in ("relation_id", "key_hash", "old_key_hash")])
    return pa.Table.from_arrays(
        [pa.array(values, pa.int64()) for values in zip(*keys, strict=True)], schema=schema
    )


def _build(groups) -> dict[int, KeyIndexPart]:
    return build((place, _columns(keys)) for place, keys in groups.items())


def _rows(groups) -> dict[tuple[int, int], set[GroupPlace]]:
    """Each row with the row groups that have it, by a plain loop."""
    rows: dict[tuple[int, int], set[GroupPlace]] = {}
    for place, keys in groups.items():
        for relation, *hashes in keys:
            for key in hashes:
                if key is not None:
                    rows.setdefault((relation, key), set()).add(place)
    return rows


def _lookup(parts, relation: int, key: int) -> list[GroupPlace]:
    hashed = row_hash(relation, key)
    part = parts.get(part_of(hashed))
    return [] if part is None else part.lookup(hashed)


@given(_GROUPS)
def test_every_row_is_found_where_it_is(groups) -> None:
    parts = _build(groups)

    for (relation, key), places in _rows(groups).items():
        assert _lookup(parts, relation, key) == sorted(places)


@given(_GROUPS, _GROUPS)
def test_merged_parts_are_the_parts_of_all(one, other) -> None:
    halves = _build(one), _build(other)
    together = {
        number: merged([half[number] for half in halves if number in half]).to_bytes()
        for number in halves[0].keys() | halves[1].keys()
    }
    rows = [(place, _columns(keys)) for groups in (one, other) for place, keys in groups.items()]

    assert together == {number: part.to_bytes() for number, part in build(rows).items()}


@given(_GROUPS, st.data())
def test_entries_of_deleted_segments_are_gone(groups, data) -> None:
    segments = sorted({place.segment_id for place in groups})
    deleted = data.draw(st.sets(st.sampled_from(segments))) if segments else set()
    kept = {place: keys for place, keys in groups.items() if place.segment_id not in deleted}

    left = {number: part.without(deleted) for number, part in _build(groups).items()}

    left = {number: part.to_bytes() for number, part in left.items() if len(part.hashes)}
    assert left == {number: part.to_bytes() for number, part in _build(kept).items()}


@given(_GROUPS)
def test_a_part_comes_back_from_its_bytes(groups) -> None:
    for part in _build(groups).values():
        again = KeyIndexPart.from_bytes(part.to_bytes())
        assert again.to_bytes() == part.to_bytes()
        assert (again.places == part.places).all()


@given(changes())
def test_the_index_of_a_segment_leads_to_the_changes_of_a_row(rows) -> None:
    reader = SegmentReader(pa.BufferReader(write_segment(1, table_of(rows), group_rows=3)))
    parts = build(
        (GroupPlace(5, group), reader.key_columns(group)) for group in range(reader.groups)
    )

    for row in rows:
        for key in {row.key_hash, row.old_key_hash} - {None}:
            places = _lookup(parts, row.relation_id, key)
            groups = {
                number // 3
                for number, other in enumerate(rows)
                if other.relation_id == row.relation_id
                and key in (other.key_hash, other.old_key_hash)
            }
            assert places == [GroupPlace(5, group) for group in sorted(groups)]


def test_equal_keys_of_two_tables_are_two_rows() -> None:
    parts = _build({GroupPlace(1, 0): [(1, 42, None)], GroupPlace(2, 0): [(2, 42, None)]})

    assert _lookup(parts, 1, 42) == [GroupPlace(1, 0)]
    assert _lookup(parts, 2, 42) == [GroupPlace(2, 0)]


def test_an_entry_takes_at_most_eight_bytes_and_others_are_hardly_found() -> None:
    draw = random.Random(1)
    keys = [draw.randrange(-(1 << 63), 1 << 63) for _ in range(200_000)]
    groups = {
        GroupPlace(start >> 16, start // 8192 % 8): [(3, key, None) for key in keys[start:][:8192]]
        for start in range(0, len(keys), 8192)
    }
    parts = _build(groups)

    size = sum(len(part.to_bytes()) for part in parts.values())

    assert size <= 8 * len(keys)
    assert sum(len(_lookup(parts, 3, draw.randrange(1 << 63))) for _ in range(20_000)) <= 1


def test_too_many_row_groups_for_one_part_are_refused() -> None:
    def part(first: int) -> KeyIndexPart:
        places = np.arange(first, first + 40_000) << 16
        return KeyIndexPart.of(np.zeros(40_000, np.uint32), places)

    with pytest.raises(ValueError, match="80000 row groups are too many"):
        merged([part(0), part(40_000)])
