"""Rows that come as JSON: what was sent, what was null, what a mark stands for."""

import pyarrow as pa
import pytest

from replview.spark.reading.packed_images import PackedImages
from replview.spark.slices import SliceTable, TableVersion


def _table(*versions: tuple[str, ...]) -> SliceTable:
    def shape(number: int, names: tuple[str, ...]) -> TableVersion:
        columns = [{"name": name, "type_oid": 25, "typmod": -1, "type": "text"} for name in names]
        return TableVersion(id=number, number=number, columns=tuple(columns), key_columns=("id",))

    shapes = tuple(shape(number, names) for number, names in enumerate(versions, start=1))
    return SliceTable(relation_id=1, oid=1, schema="public", table="t", versions=shapes)


def _unpacked(table: SliceTable, *lines: str, versions: tuple[int, ...]):
    images = PackedImages(table, table.columns)
    found = images.unpacked("\n".join(lines).encode(), pa.array(versions, pa.int64()))
    return None if found is None else {name: each.to_pylist() for name, each in found.items()}


def test_what_was_not_sent_is_no_null() -> None:
    table = _table(("id", "note"), ("id", "note", "late"))

    found = _unpacked(
        table,
        '{"id": "1", "note": null}',
        '{"id": "2"}',
        '{"id": "\\"note\\": null", "note": "a\\nb: {\\"c\\": 1}"}',
        '{"id": "4", "late": null}',
        "{}",
        versions=(1, 1, 1, 2, 2),
    )

    assert found == {
        "x0": ["1", "2", '"note": null', "4", None],
        "x1": [None, None, 'a\nb: {"c": 1}', None, None],
        "x2": [None, None, None, None, None],
        # In the first version there was no such column.
        "missing": [None, "1,", None, "1,", "0,1,2,"],
        "marked": [None] * 5,
    }


def test_a_marked_row_comes_whole_with_nothing_in_the_marks_place() -> None:
    row = '{"id": "1", "note": {"$aside": 6}}'

    found = _unpacked(_table(("id", "note")), row, '{"id": "2", "note": "x"}', versions=(1, 1))

    assert found == {
        "x0": ["1", "2"], "x1": [None, "x"], "missing": [None, None], "marked": [row, None],
    }  # fmt: skip


def test_rows_that_are_no_texts_are_not_taken_apart_here() -> None:
    assert _unpacked(_table(("id",)), '{"id": 1}', versions=(1,)) is None


@pytest.mark.parametrize(
    ("names", "serve"),
    [(("id", "note"), True), (("a \"b.c'", "c"), True), (('x"note', "note"), False)],
)
def test_a_name_that_ends_with_another_in_quotes_cannot_be_told_from_it(names, serve) -> None:
    table = _table(names)

    assert PackedImages.serve(table, table.columns) is serve
