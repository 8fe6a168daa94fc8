"""Exports in pieces, with runs killed between, are the record, row for row.

Five seeds of random histories of ten tables, or as many as ``ROUND_TRIPS`` says, from ``SEED`` on.
"""

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replview.parquet import reading
from replview.parquet.slices import Slice
from tests.support.baselines import take
from tests.support.export_endings import killed, write
from tests.support.histories import Histories
from tests.support.named_histories import Named
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

_FIRST = int(os.environ.get("SEED", "0"))
_SEEDS = range(_FIRST, _FIRST + int(os.environ.get("ROUND_TRIPS", "5")))
#: CI's main run plays so many of them each time, the first ones.
_EVERY_TIME = 1


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=pytest.mark.long if number >= _EVERY_TIME else ())
        for number, seed in enumerate(_SEEDS)
    ],
)
def test_pieces_are_the_record_again(
    seed: int, source: SourceDatabase, record: Any, store_dsn: str, tmp_path: Path
) -> None:
    histories = Histories(source, Named(seed))
    histories.create()
    recording = record(source, publish="TABLES IN SCHEMA public")
    recording.streaming()
    for table in histories.tables:
        take(recording, f"public.{table.called}")
    histories.play(150)
    recording.caught_up()
    recording.end()
    with reading.connect(store_dsn) as store:
        request = reading.SliceRequest(slot=recording.slot.name, before="full")
        whole = reading.resolve(store, request)
        recorded = sorted(
            _texts(row)
            for table in reading.tables_of(store, whole)
            for batch in reading.read_typed(store, whole, table)
            for row in batch.to_pylist()
        )
    _export_in_pieces(random.Random(seed), whole, store_dsn, tmp_path)
    assert len(recorded) > 150
    assert _exported(tmp_path) == recorded


def _export_in_pieces(dice: random.Random, whole: Slice, store_dsn: str, root: Path) -> None:
    """Each piece may first be killed at some step, perhaps while it was to be a longer one."""
    edges = sorted({*dice.sample(range(1, whole.through_seq), 3), whole.through_seq})
    for after, through in zip([0, *edges], edges, strict=False):
        piece = replace(whole, after_seq=after, through_seq=through)
        if dice.random() < 0.7:
            killed(store_dsn, piece, root, dice.randrange(14))
        write(store_dsn, piece, root)


def _exported(root: Path) -> list[tuple[str, ...]]:
    """Return the rows of all tables, each of which may have several folders."""
    files = root.glob("*/*/public.*/*/*.parquet")
    rows = (row for path in files for row in pq.ParquetFile(path).read().to_pylist())
    return sorted(map(_texts, rows))


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row's values; between pieces, columns came, went, or became of other types."""
    values = {name: value for name, value in row.items() if value not in (None, [])}
    return tuple(f"{name}={value}" for name, value in sorted(values.items()))
