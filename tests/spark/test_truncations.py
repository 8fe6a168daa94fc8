"""Rows of a table that was truncated time and again."""

import random
from bisect import bisect_left

import pyarrow as pa
import pytest

from replview.parquet.slice_schemas import TIMESTAMPTZ
from replview.spark.history.engines import made
from replview.spark.history.row_intervals import STREAM, Truncations, in_epochs
from tests.support.written_history import BEGAN

pytestmark = pytest.mark.slow
MARKS = pa.schema(
    [("_commit_version", pa.int64()), ("_seq", pa.int32()), ("_commit_timestamp", TIMESTAMPTZ)]
)
ROWS = pa.schema([("_commit_version", pa.int64()), (STREAM, pa.int32()), ("_seq", pa.int32())])


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_each_row_comes_after_as_many_as_there_were_before(engine, count) -> None:
    # Dense in some stretches of WAL, none in most; LSNs that a float would not hold.
    dice = random.Random(count)
    begin = 1 << 61

    def place() -> int:
        return begin + (dice.randrange(60) ** 3 << 20) + dice.randrange(40)

    marks = {(place(), dice.randrange(1, 4)) for _ in range(count)}
    rows = [(place(), stream, dice.randrange(1, 5)) for _ in range(4000) for stream in (0, 1)]
    rows += [
        (lsn, stream, seq + more) for lsn, seq in marks for stream in (0, 1) for more in (0, 1)
    ]

    told = [(*mark, BEGAN) for mark in marks]
    cut = Truncations.of(made(engine, told * 2, MARKS))
    frame = in_epochs(made(engine, rows, ROWS), cut)

    order = sorted(marks)
    assert (cut.count, cut.first, cut.last) == (
        len(marks),
        *(order[:1] or [None]),
        *(order[-1:] or [None]),
    )
    expected = [
        (lsn, stream, seq, bisect_left(order, (lsn, seq if stream else -1)))
        for lsn, stream, seq in rows
    ]
    names = ("_commit_version", STREAM, "_seq", "_epoch")
    assert sorted(tuple(each[name] for name in names) for each in frame.collect()) == sorted(
        expected
    )
    ends = {each["_epoch"]: each["_end"]["v"] for each in cut.ends.collect()}
    assert ends == {number: lsn for number, (lsn, _) in enumerate(order)}
