"""Erasing rows from a lake: no file has their values, and all other rows are as they were."""

from pathlib import Path
from typing import Any

import pytest

from replview.spark.lake.erasing import LakeErasure, erase
from replview.spark.lake.feeding import Feed
from replview.spark.lake.tables import CHANGES, CURRENT
from replview.spark.sessions import SparkProblem
from replview.store.read.row_history.trails import KeySpan, key_of
from tests.spark.lake.conftest import MakeFeed
from tests.support.searching import files_holding
from tests.support.source_databases import SourceDatabase

pytestmark = [pytest.mark.slow, pytest.mark.long]

PLANTED = "PLANTED"
MARK = '{"$erased":true,"$on":"2026-11-27"}'
_TABLE = (
    "CREATE TABLE person (mail text PRIMARY KEY, name text, born date, letter text)",
    "ALTER TABLE person ALTER letter SET STORAGE EXTERNAL",
)
_LIFE = (
    "INSERT INTO person VALUES ('PLANTED@old', 'PLANTED Ann', '2000-01-01', 'PLANTED letter'),"
    " ('bob@b', 'Bob', '2001-02-03', repeat('bob', 3000))",
    "UPDATE person SET name = 'PLANTED Anna' WHERE mail = 'PLANTED@old'",
    "UPDATE person SET name = 'Robert' WHERE mail = 'bob@b'",
    "UPDATE person SET mail = 'PLANTED@new' WHERE mail = 'PLANTED@old'",
)


def erasure(*keys: str, **values: Any) -> LakeErasure:
    spans = [KeySpan(key_of({"mail": key})) for key in keys]
    fields = {"mark": MARK, "columns": (), "actor": "", "alias": "", "spans": spans,
              "places": frozenset(), "stored_from": {"1": 1}}  # fmt: skip
    return LakeErasure(**{**fields, **values})


def rows(feed: Feed, kind: str) -> list[dict[str, Any]]:
    frame = feed.lake.frame(kind).orderBy("_commit_seq", "_seq", "_commit_version")
    return [row.asDict() for row in frame.collect()]


def folder_of(feed: Feed) -> Path:
    return Path(feed.lake.root, feed.lake.source, feed.lake.slot)


@pytest.fixture
def fed(source: SourceDatabase, record: Any, feed_of: MakeFeed) -> Feed:
    """A lake with two people, one of them under two keys, fed in two batches."""
    source.run(*_TABLE)
    recording = record(source)
    source.run(*_LIFE[:2])
    recording.caught_up()
    feed = feed_of(recording, "public.person")
    feed.run()
    source.run(*_LIFE[2:])
    recording.caught_up()
    feed.run()
    return feed


def test_nothing_of_a_row_is_left_and_others_stay(fed: Feed) -> None:
    folder, reached = folder_of(fed), fed.status()
    before = rows(fed, CHANGES)
    assert files_holding(PLANTED, folder)
    wanted = erasure("PLANTED@old", "PLANTED@new")
    counts = erase(fed.lake, fed.settle(), wanted)

    assert files_holding(PLANTED, folder) == []
    after = rows(fed, CHANGES)
    others = [row for row in before if PLANTED not in str(row)]
    assert [row for row in after if row in others] == others
    assert len(after) == len(before)
    erased = [row for row in after if row not in others]
    assert counts["rows"] == len(erased) == len(before) - len(others)
    assert counts["files"] >= 2
    assert {row["name"] for row in erased} == {None}
    # The mark stands for what was sent, and for nothing else.
    assert all(
        set(row["_pg_raw"]) == {"mail", "name", "born", "letter"} - set(row["_not_sent"] or ())
        for row in erased
        if row["_change_type"] != "update_preimage"
    )
    assert {row["mail"] for row in rows(fed, CURRENT)} == {"bob@b"}
    sizes = [fed.lake.size(kind) for kind in (CHANGES, CURRENT)]
    assert [size["rows"] for size in sizes] == [len(before), 1]
    assert min(size["files"] for size in sizes) > 0
    assert min(size["bytes"] for size in sizes) > 0
    assert rows(fed, CURRENT)[0]["letter"] == "bob" * 3000
    # The next run goes on where the last one ended, and the act can be repeated.
    assert fed.status() == reached
    assert erase(fed.lake, fed.settle(), wanted)["rows"] == 0
    assert fed.run().batches == 0


def test_some_columns_an_actor_and_a_masked_key(fed: Feed) -> None:
    name = fed.lake.name(CHANGES)
    fed.lake.spark.sql(f"UPDATE {name} SET _actor = 'PLANTED actor' WHERE _commit_seq = 1")
    wanted = erasure("bob@b", columns=("name",), actor="PLANTED actor", alias="erased actor 7")
    erase(fed.lake, fed.settle(), wanted)
    changes = rows(fed, CHANGES)
    assert {row["_actor"] for row in changes if row["_commit_seq"] == 1} == {"erased actor 7"}
    assert files_holding("PLANTED actor", folder_of(fed)) == []
    bobs = [row for row in changes if row["mail"] == "bob@b"]
    assert [row["name"] for row in bobs] == [None] * len(bobs)
    assert {row["_pg_raw"]["name"] for row in bobs} == {MARK}
    [bob] = [row for row in rows(fed, CURRENT) if row["mail"] == "bob@b"]
    assert (bob["name"], bob["_pg_raw"]["name"], str(bob["born"])) == (None, MARK, "2001-02-03")

    # A key that is masked there is found by its place in the record; without it by nothing.
    masked = "map('mail', '{\"$masked\":true}')"
    fed.lake.spark.sql(f"UPDATE {name} SET mail = NULL, _pg_raw = {masked} WHERE _commit_seq = 2")
    [place] = [row for row in rows(fed, CHANGES) if row["_commit_seq"] == 2]
    gone = erasure("PLANTED@old", stored_from={"1": 3})
    with pytest.raises(SparkProblem, match="no longer has 1 transactions whose keys are masked"):
        erase(fed.lake, fed.settle(), gone)
    known = (place["_incarnation"], place["_commit_version"], place["_xid"], place["_seq"])
    erase(fed.lake, fed.settle(), erasure("PLANTED@old", "PLANTED@new", stored_from={"1": 3},
                                          places=frozenset({known})))  # fmt: skip
    assert files_holding(PLANTED, folder_of(fed)) == []
