"""A lake of a real table: ``current`` is the table, ``changes`` is the record."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F

from replview.acts.publications import look_at_publications
from replview.spark.lake import feeding
from replview.spark.lake.feeding import Feed
from replview.spark.lake.maintenance import maintain
from replview.spark.lake.tables import CHANGES, CURRENT, PARTITION, LakeTable
from replview.store.dsn import set_dsn
from tests.spark.lake.conftest import MakeFeed, killed_after
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

_PLACE = ("_commit_seq", "_seq", "_change_type")
_TABLE = (
    "CREATE TABLE shop (id int PRIMARY KEY, a text, n numeric(12,2), big text)",
    "ALTER TABLE shop ALTER big SET STORAGE EXTERNAL",
)
_ROWS = "INSERT INTO shop SELECT g, 'a' || g, g, repeat(g::text, 3000) FROM generate_series(1, 9) g"
#: Values that are not sent again, of rows that move, come back, and take each other's keys.
_MOVES = (
    "UPDATE shop SET a = 'b1' WHERE id = 1",
    "UPDATE shop SET id = 101 WHERE id = 2",
    "UPDATE shop SET n = 'NaN' WHERE id = 101",
    "BEGIN; UPDATE shop SET id = 0 WHERE id = 3; UPDATE shop SET id = 3 WHERE id = 4; "
    "UPDATE shop SET id = 4 WHERE id = 0; UPDATE shop SET a = 'swapped' WHERE id = 4; COMMIT",
    "DELETE FROM shop WHERE id = 5; INSERT INTO shop VALUES (5, 'again', 5, 'new')",
    "DELETE FROM shop WHERE id = 6; UPDATE shop SET id = 6 WHERE id = 7",
    "UPDATE shop SET id = 8, a = 'moved' WHERE id = 8; DELETE FROM shop WHERE id = 9",
)


def held(source: SourceDatabase) -> dict[str, dict[str, str | None]]:
    words = "SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(to_jsonb(t))"
    with source.connect() as session:
        return dict(session.execute(f"SELECT id::text, ({words}) FROM shop t").fetchall())


def current(lake: LakeTable) -> dict[str, dict[str, str | None]]:
    """The known values of each row, as the server writes them."""
    found = {}
    for row in lake.frame(CURRENT).collect():
        raw, unknown = row["_pg_raw"] or {}, set(row["_unknown"])
        values = {name: v for name, v in row.asDict().items() if not name.startswith("_")}
        found[str(row["id"])] = {
            name: raw.get(name, None if v is None else str(v))
            for name, v in values.items()
            if name not in unknown
        }
    return found


def holds_what_is_recorded(feed: Feed) -> bool:
    options = {"dsn": feed.options["dsn"], "relation": feed.lake.relation, "slot": feed.lake.slot}
    spark = feed.lake.spark
    recorded = spark.read.format("replview").options(**options).load().select(*_PLACE).collect()
    changes = feed.lake.frame(CHANGES).where("_change_type <> 'truncate'").select(*_PLACE)
    return sorted(changes.collect()) == sorted(recorded)


def test_current_is_the_sources_table(
    source: SourceDatabase, record: Any, feed_of: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.run(*_TABLE)
    recording = record(source)
    source.run(_ROWS)
    recording.caught_up()
    told: list[tuple[int, int]] = []
    feed = feed_of(recording, "public.shop", 18)
    feed = replace(feed, progress=lambda fed: told.append((fed.changes, fed.of_changes)))
    assert feed.run().batches == 1
    assert told == [(0, 9), (9, 9)]

    source.run(*_MOVES)
    recording.caught_up()
    with monkeypatch.context() as patch:
        # Killed between the two commits: changes has the batch, and current has not.
        patch.setattr(feeding, "catch_up", killed_after(1))
        with pytest.raises(KeyboardInterrupt):
            feed.run()
    assert feed.lake.reached(CHANGES) != feed.lake.reached(CURRENT)
    feed.run()
    assert current(feed.lake) == held(source)

    source.run(
        "TRUNCATE shop",
        "INSERT INTO shop VALUES (1, 'x', 1, 'x'), (2, 'y', 2, 'y')",
        "ALTER TABLE shop ADD extra int DEFAULT 7, ALTER n TYPE numeric(14,2), "
        "ALTER id TYPE bigint",
        "UPDATE shop SET a = 'z' WHERE id = 2",
    )
    recording.caught_up()
    feed.run()
    expected = held(source)
    # What ALTER TABLE did to the row that did not change since is in no change.
    del expected["1"]["extra"], expected["1"]["n"]
    assert current(feed.lake) == expected
    assert holds_what_is_recorded(feed)

    reached = feed.status()
    maintain(feed.lake)
    assert feed.status() == reached
    assert current(feed.lake) == expected
    for kind in (CHANGES, CURRENT):
        files = feed.lake.frame(kind).select(PARTITION[kind], F.input_file_name()).distinct()
        assert files.count() == files.select(PARTITION[kind]).distinct().count()


def test_rows_are_unknown_that_may_have_changed_while_they_were_not_published(
    source: SourceDatabase, record: Any, feed_of: MakeFeed
) -> None:
    source.run(*_TABLE)
    recording = record(source, publish="TABLE shop")
    set_dsn(recording.slot.source, source.dsn)
    recording.slot.source.save()
    alter = f"ALTER PUBLICATION {recording.slot.name}"
    feed = feed_of(recording, "public.shop")
    steps = (
        (_ROWS,),
        (f"{alter} DROP TABLE shop",),
        ("DELETE FROM shop WHERE id < 3", "UPDATE shop SET a = 'unseen'"),
        (f"{alter} ADD TABLE shop",),
        ("UPDATE shop SET n = 0 WHERE id = 9", "INSERT INTO shop VALUES (1, 'anew', 1, 'one')"),
    )
    for statements in steps:
        source.run(*statements)
        recording.caught_up()
        look_at_publications(recording.slot.source)
        feed.run()
    found, expected = current(feed.lake), held(source)
    assert all(row.items() <= expected.get(key, {}).items() for key, row in found.items())
    assert found["9"] == {"id": "9", "a": "unseen", "n": "0.00"}
    assert found["1"] == expected["1"]
    assert found["2"] == {}
    assert "changes are missing" in feed.run().no_current
