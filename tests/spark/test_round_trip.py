"""Exports in pieces, with runs killed between, give the source's tables again, row for row.

Five seeds of random histories of ten tables, or as many as ``ROUND_TRIPS`` says, from ``SEED`` on.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from replview.parquet import reading
from replview.parquet.writing import layout
from replview.parquet.writing.datasets import roots_of
from replview.parquet.writing.targets import Target
from replview.spark.snippets import Snippet, snippets
from tests.spark.printed_programs import as_arrow, run
from tests.support.baselines import take
from tests.support.export_endings import killed, write
from tests.support.histories import Histories
from tests.support.history_tables import Row, Table
from tests.support.named_histories import Named
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

_FIRST = int(os.environ.get("SEED", "0"))
_SEEDS = range(_FIRST, _FIRST + int(os.environ.get("ROUND_TRIPS", "5")))
#: CI's main run plays so many of them each time, the first ones.
_EVERY_TIME = 1
#: Columns that nobody alters: the changes do not say what ALTER TABLE does to rows.
_COLUMNS = ("rid", "id", "part", "a", "n", "big")
#: Programs end with these words where the changes do not tell of which row one was.
_UNTOLD = "of which row they are"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=pytest.mark.long if number >= _EVERY_TIME else ())
        for number, seed in enumerate(_SEEDS)
    ],
)
def test_pieces_are_the_sources_table_again(
    seed: int, source: SourceDatabase, record: Any, store_dsn: str, tmp_path: Path, spark: Any
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
    _export_in_pieces(random.Random(seed), recording.slot.name, store_dsn, tmp_path)
    compared = 0
    with source.connect() as session:
        for table in histories.tables:
            held = {str(row["rid"]): row for row in histories.held(session, table).values()}
            oid = session.execute("SELECT %s::regclass::oid::bigint", [table.called]).fetchone()
            for program in _programs(tmp_path, table, oid[0]):
                if program.name == "duckdb-table" or (seed == 0 and program.name == "spark-table"):
                    compared += _hold(table, held, program, spark)
    assert compared > 3


def _export_in_pieces(dice: random.Random, slot: str, store_dsn: str, root: Path) -> None:
    """Each piece may first be killed at some step, perhaps while it was to be a longer one."""
    with reading.connect(store_dsn) as store:
        whole = reading.resolve(store, reading.SliceRequest(slot=slot, before="full"))
    edges = sorted({*dice.sample(range(1, whole.through_seq), 3), whole.through_seq})
    for after, through in zip([0, *edges], edges, strict=False):
        piece = replace(whole, after_seq=after, through_seq=through)
        if dice.random() < 0.7:
            killed(store_dsn, piece, root, dice.randrange(12))
        write(store_dsn, piece, root)


def _programs(root: Path, table: Table, oid: int) -> Iterator[Snippet]:
    """Yield the programs that an export prints for the table."""
    [incarnation] = (path.relative_to(root) for path in root.glob("*/*"))
    target, newest = Target.of(str(root)), dict[str, int]()
    for schema in root.glob(f"*/*/*.*/{layout.SCHEMA}"):
        document = orjson.loads(schema.read_bytes())
        if document["table"]["oid"] == oid:
            newest[schema.parent.name] = document["versions"][-1]["number"]
    if not newest:
        return
    own = max(newest, key=lambda name: (newest[name], layout.root_of(name)))
    *before, (folder, document) = (
        (str(root / path), document) for path, document in roots_of(target, str(incarnation), own)
    )
    events = layout.EVENTS in target.folders(str(incarnation))
    # Two rows may have one deferrable key for a moment, which programs do not tell apart.
    if table.identity != "NOTHING" and not table.deferrable:
        yield from snippets(folder, document, before=before, events=events)


def _hold(table: Table, held: dict[str, Row], program: Snippet, spark: Any) -> bool:
    """Return True if the program gives the source's table, False if it says that it cannot.

    Columns that the program names as unknown are not compared.
    """
    try:
        rows = as_arrow(run(program, spark)).to_pylist()
    except Exception as error:
        if _UNTOLD in str(error):
            return False
        raise
    told = {}
    for row in rows:
        raw, unknown = dict(row.pop("_pg_raw") or []), set(row.pop("_unknown"))
        assert "rid" not in unknown, (table, row)
        words = {n: raw.get(n, None if v is None else str(v)) for n, v in row.items()}
        told[words["rid"]] = {n: words[n] for n in _COLUMNS if n not in unknown}
    assert told.keys() == held.keys(), (table, program.name, told.keys() ^ held.keys())
    for rid, row in told.items():
        assert row.items() <= held[rid].items(), (table, program.name, row, held[rid])
    return True
