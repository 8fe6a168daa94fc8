"""A change comes out of a segment as it went in, and a selection finds what a plain loop finds."""

import io
import random
from collections.abc import Callable

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replview.segments.layout import SegmentChange, changes_of, table_of
from replview.segments.reading import EVERYTHING, SegmentReader, UnknownLayoutError
from replview.segments.selection import Selection
from replview.segments.writing import SegmentContents, write_segment
from tests.segments.random_changes import FEW, HASHES, changes

INSERT = SegmentChange(1, 1, 1, 1, None, 1, 1, "I", None, 5, None, None, '{"id":"1"}')


def _written(rows: list[SegmentChange], group_rows: int = 3) -> SegmentReader:
    payload = write_segment(7, table_of(rows), group_rows=group_rows)
    return SegmentReader(pa.BufferReader(payload))


def _read(reader: SegmentReader, selection: Selection = EVERYTHING) -> list[SegmentChange]:
    return [change for table in reader.read(selection) for change in changes_of(table)]


@given(changes())
def test_every_change_comes_back_as_it_was(rows) -> None:
    reader = _written(rows)

    assert _read(reader) == rows
    assert reader.incarnation_id == 7
    assert reader.groups == -(-len(rows) // 3)


_BOUND = st.integers(0, 6) | st.integers(1_000_000_000_000, 1_000_000_000_006)
_IDS = st.sets(FEW | FEW.map(lambda n: n + (494_400 << 32)), max_size=3)
_SELECTIONS = st.builds(
    Selection,
    commit_seqs=st.none() | st.builds(range, _BOUND, _BOUND),
    transaction_ids=st.none() | _IDS,
    relation_ids=st.none() | st.sets(FEW, max_size=3),
    key_hashes=st.none() | st.sets(HASHES, max_size=3),
)


def _naive(selection: Selection) -> Callable[[SegmentChange], bool]:
    def matches(row: SegmentChange) -> bool:
        hashes = {row.key_hash, row.old_key_hash} - {None}
        seqs, ids = selection.commit_seqs, selection.transaction_ids
        relations, keys = selection.relation_ids, selection.key_hashes
        return (
            (seqs is None or (row.commit_seq is not None and row.commit_seq in seqs))
            and (ids is None or row.transaction_id in ids)
            and (relations is None or row.relation_id in relations)
            and (keys is None or not hashes.isdisjoint(keys))
        )

    return matches


@given(changes(), _SELECTIONS, st.integers(1, 8))
def test_a_selection_finds_what_a_plain_loop_finds(rows, selection, group_rows) -> None:
    found = _read(_written(rows, group_rows), selection)

    assert found == [row for row in rows if _naive(selection)(row)]


@pytest.mark.parametrize("group_rows", [1, 2, 3])
def test_the_ends_of_a_range_are_found(group_rows) -> None:
    rows = [INSERT._replace(commit_seq=n, transaction_id=n, relation_id=n) for n in range(1, 7)]
    reader = _written(rows, group_rows)

    for first in range(8):
        for stop in range(8):
            found = _read(reader, Selection(commit_seqs=range(first, stop)))
            assert [row.commit_seq for row in found] == [n for n in range(first, stop) if 0 < n < 7]
        assert len(_read(reader, Selection(transaction_ids=[first]))) == (0 < first < 7)
        assert len(_read(reader, Selection(relation_ids=[first]))) == (0 < first < 7)


@given(changes(), st.data())
def test_a_text_finds_every_change_with_it(rows, data) -> None:
    images = [orjson.loads(image) for row in rows for image in (row.old, row.new) if image]
    values = [value for image in images for value in image.values() if isinstance(value, str)]
    text = data.draw(st.sampled_from(values) if values else st.just("x"))

    found = _read(_written(rows), Selection(text=text))

    with_text = [row for row in rows if any(_holds(image, text) for image in (row.old, row.new))]
    assert [row for row in with_text if row not in found] == []
    assert found == [row for row in rows if row in found]


def _holds(image: str | None, text: str) -> bool:
    values = orjson.loads(image or "{}").values()
    return any(isinstance(value, str) and text.lower() in value.lower() for value in values)


def test_a_text_selects_no_change_without_it() -> None:
    paid = INSERT._replace(seq=2, new='{"status": "Paid"}')
    removed = INSERT._replace(seq=3, op="D", old_kind="K", old='{"id": "paid-9"}', new=None)

    assert _read(_written([INSERT, paid, removed]), Selection(text="pAID")) == [paid, removed]


@given(changes(), st.sets(st.integers(0, 9)))
def test_only_the_row_groups_that_are_named_are_read(rows, chosen) -> None:
    reader = _written(rows)
    groups = {number for number in chosen if number < reader.groups}

    found = [change for table in reader.read(groups=groups) for change in changes_of(table)]

    assert found == [row for number, row in enumerate(rows) if number // 3 in groups]


class _CountedFile(io.BytesIO):
    """A file that counts the bytes that are read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.read_bytes += len(data)
        return data


@pytest.mark.parametrize(
    "selection",
    [
        Selection(commit_seqs=range(20, 21)),
        Selection(transaction_ids=[20]),
        Selection(relation_ids=[20]),
        Selection(key_hashes=[20]),
    ],
)
def test_one_row_group_is_decompressed_for_one_change(selection) -> None:
    rows = [
        INSERT._replace(commit_seq=n, transaction_id=n, relation_id=n, key_hash=n,
                        new=f'{{"id": "{hash((n, "x")):x}{hash((n, "y")):x}"}}')
        for n in range(4000)
    ]  # fmt: skip
    whole = write_segment(7, table_of(rows), group_rows=100).to_pybytes()
    file = _CountedFile(whole)
    reader = SegmentReader(pa.PythonFile(file, mode="r"))
    footer_bytes, file.read_bytes = file.read_bytes, 0

    assert _read(reader, selection) == [rows[20]]

    # Key hashes are read of all row groups, images of one.
    share = 0.35 if selection.key_hashes else 0.05
    assert file.read_bytes < share * (len(whole) - footer_bytes)


def test_row_groups_are_smaller_where_images_are_large() -> None:
    rows = [INSERT._replace(seq=n, new=f'{{"id": "{n % 10}{"x" * 1_000_000}"}}') for n in range(40)]

    reader = _written(rows, group_rows=8192)

    assert reader.groups == 3
    assert _read(reader) == rows


def test_the_contents_of_a_segment_are_its_ranges_and_tables() -> None:
    message = INSERT._replace(
        commit_seq=None, transaction_id=9, lsn=(1 << 64) - 1, relation_id=None, op="M"
    )
    other = INSERT._replace(commit_seq=4, transaction_id=3, relation_id=8)

    assert SegmentContents.of(table_of([INSERT, other, message])) == SegmentContents(
        3, (1, 4), (1, 9), (1, (1 << 64) - 1), (1, 8)
    )
    assert SegmentContents.of(table_of([message])).commit_seqs is None


def test_other_files_and_later_layouts_are_refused() -> None:
    other = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), other)
    payload = write_segment(7, table_of([INSERT])).to_pybytes()
    later = payload.replace(b'{"segment":1', b'{"segment":2')

    for file, message in ((b"no Parquet at all", "no segment"), (other.getvalue(), "no segment"),
                          (payload[:-1], "no segment"), (later, "layout 2")):  # fmt: skip
        with pytest.raises(UnknownLayoutError, match=message):
            SegmentReader(pa.BufferReader(file))


def test_a_damaged_page_is_noticed() -> None:
    draw = random.Random(1)
    rows = [
        INSERT._replace(seq=n, key_hash=draw.getrandbits(63), new=f'{{"id": "{draw.random()}"}}')
        for n in range(40)
    ]
    payload = bytearray(write_segment(7, table_of(rows), group_rows=20).to_pybytes())
    footer_bytes = int.from_bytes(payload[-8:-4], "little") + 8
    noticed = 0
    for offset in range(4, len(payload) - footer_bytes):
        payload[offset] ^= 1
        try:
            assert _read(SegmentReader(pa.BufferReader(bytes(payload)))) == rows
        except (OSError, pa.ArrowException):
            noticed += 1
        payload[offset] ^= 1

    # What goes unnoticed is in headers of pages, and changes no value.
    assert noticed > (len(payload) - footer_bytes) / 2
