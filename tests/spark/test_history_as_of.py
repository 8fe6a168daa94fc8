"""A table as of a moment, worked out from exported files, is what the source held then."""

import random

import pytest

from decoder.scalars import LSN
from replview.spark.history.datasets import Dataset
from replview.spark.history.snapshots import as_of
from replview.spark.history.spans import HistoryEnd
from tests.spark.exporting import exported
from tests.support.baselines import take
from tests.support.row_ledger import Ledger

pytestmark = pytest.mark.slow


def held(result) -> dict[str, dict]:
    """The ledger's form of the rows."""
    columns = ("id", "a", "b", "big")
    rows = [
        {name: None if row[name] is None else str(row[name]) for name in columns}
        for row in result.frame.collect()
    ]
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.own_jvm
def test_it_equals_the_source_whatever_happened_to_rows(
    source, record, store_dsn, engine, tmp_path
) -> None:
    source.run("CREATE TABLE written (n serial)")
    ledger = Ledger(source, 5)
    ledger.play(6)  # before the record begins: only a baseline knows of it
    recording = record(source)
    ledger.play(12)
    recording.caught_up()
    for table in ("plain", "twin"):
        take(recording, table)
    ledger.play(90)
    recording.caught_up()
    recording.end()
    half = exported(store_dsn, recording, tmp_path, through=40)
    exported(store_dsn, recording, tmp_path, after=half)

    committed = recording.transactions(state="committed")
    contents = ledger.contents[-len(committed) :]
    moments = random.Random(5).sample(range(8, len(committed)), 3)
    for table in ("plain", "twin"):
        dataset = Dataset.find(str(tmp_path), f"public.{table}")
        for n in moments:
            lsn = int(LSN(committed[n].commit_lsn))
            result = as_of(engine, dataset, HistoryEnd(lsn=lsn))
            assert held(result) == contents[n], (table, n)
            assert result.complete, result.reasons
