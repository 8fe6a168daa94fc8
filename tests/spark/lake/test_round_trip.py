"""Random histories, in random batches with kills between: ``current`` is the source's table.

Five seeds run in CI, each in another share; or as many as ``ROUND_TRIPS`` says, from ``SEED`` on;
or those that ``SEEDS`` names, as in ``named_histories``.
"""

import os
import random
from contextlib import suppress
from typing import Any

import pytest

from replview.spark.lake import feeding
from replview.spark.lake.feeding import Feed
from replview.spark.lake.tables import CURRENT
from tests.spark.lake.conftest import MakeFeed, killed_after
from tests.spark.lake.readers import READERS, changes_are_the_record, in_order, read_by_spark
from tests.support.baselines import take
from tests.support.histories import Histories
from tests.support.history_tables import Row, Table
from tests.support.named_histories import Named
from tests.support.shares import SHARES
from tests.support.source_databases import SourceDatabase

pytestmark = [
    pytest.mark.slow,
    # Polars plans with pyiceberg where its own planner is not installed.
    pytest.mark.filterwarnings("ignore:Iceberg scan planning"),
]

_FIRST = int(os.environ.get("SEED", "0"))
_SEEDS = range(_FIRST, _FIRST + int(os.environ.get("ROUND_TRIPS", "5")))
_NAMES = [*map(Named.parse, os.environ.get("SEEDS", "").split())] or [*map(Named, _SEEDS)]
_PARAMS = [
    pytest.param(name, marks=pytest.mark.long(share=number % SHARES + 1))
    for number, name in enumerate(_NAMES)
]


@pytest.mark.parametrize("name", _PARAMS, ids=str)
def test_batches_are_the_sources_table_again(
    name: Named, source: SourceDatabase, record: Any, feed_of: MakeFeed
) -> None:
    histories = Histories(source, name)
    histories.create()
    recording = record(source, publish="TABLES IN SCHEMA public")
    # Some tables are read when they have changed already.
    for number in (0, 1):
        for table in histories.tables[number::3]:
            take(recording, f"public.{table.called}")
        histories.play(75)
        recording.caught_up()
    for table in histories.tables[2::3]:
        take(recording, f"public.{table.called}")
    recording.end()
    with source.connect() as session:
        told_apart = [t for t in histories.tables if t.identity != "NOTHING" and not t.keyless]
        for table in told_apart:
            rewritten = _rewritten_since_its_last_change(histories, table)
            held = {
                str(row["rid"]): {name: row[name] for name in row.keys() - rewritten}
                for row in histories.held(session, table).values()
            }
            feed = feed_of(recording, f"public.{table.called}", 60)
            _feed_with_kills(feed, random.Random(f"{name.seed}/{table.name}"))
            _compare(feed, table, held)
    assert told_apart


def _rewritten_since_its_last_change(histories: Histories, table: Table) -> set[str]:
    """Columns whose new values are in no change."""
    found: set[str] = set()
    for fact in (fact for commit in histories.timeline for fact in commit.facts):
        if fact.table == table.name and fact.op == "w":
            found |= (fact.new or {}).keys()
        elif fact.table == table.name and not fact.defines:
            found = set()
    return found


def _feed_with_kills(feed: Feed, dice: random.Random) -> None:
    """Up to two runs end between the two commits of a batch, the last one does not."""
    for _ in range(dice.randrange(3)):
        with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(feeding, "catch_up", killed_after(dice.randrange(1, 4)))
            feed.run()
    feed.run()


def _compare(feed: Feed, table: Table, held: dict[str, Row]) -> None:
    lake, found = feed.lake, {}
    rows = read_by_spark(lake, CURRENT)
    for values in rows.to_pylist():
        raw, unknown = dict(values["_pg_raw"] or ()), set(values["_unknown"])
        assert "rid" not in unknown, (table, values)
        found[str(values["rid"])] = {
            name: raw.get(name, None if value is None else str(value))
            for name, value in values.items()
            if name in held.get(str(values["rid"]), {}) and name not in unknown
        }
    assert found.keys() == held.keys(), (table, found.keys() ^ held.keys())
    for rid, row in found.items():
        assert row.items() <= held[rid].items(), (table, row, held[rid])
    for engine, read in READERS[lake.format.name](lake, CURRENT).items():
        assert in_order(read()) == in_order(rows), (table, engine)
    assert changes_are_the_record(lake, feed.options), table
