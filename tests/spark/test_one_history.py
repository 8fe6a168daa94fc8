"""One table has one history, whatever its name, its columns' types and its replica identity."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from decoder.scalars import LSN
from replview.parquet import reading
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.spark.history import row_states
from replview.spark.history.activity import churn, hot_rows, who_changed
from replview.spark.history.datasets import Dataset, ExportedIncarnation
from replview.spark.history.snapshots import as_of, row_versions
from replview.spark.history.spans import HistoryEnd
from replview.spark.sessions import SparkProblem
from tests.spark.exporting import archived
from tests.support.written_history import V1, History

pytestmark = [pytest.mark.slow, pytest.mark.own_jvm]

NAMES = ("id", "code", "v", "w", "big")
#: What is done, under which name; what the table holds is noted after each.
STRETCHES = (
    ("t", "TRUNCATE t", "INSERT INTO t SELECT n, 'c' || n, n, n, repeat('x', 3000)"
          " FROM generate_series(1, 9) n",
     "UPDATE t SET v = 100 WHERE id = 3", "UPDATE t SET id = 20 WHERE id = 1",
     "DELETE FROM t WHERE id = 2"),
    ("t", "ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET id = 21, code = 'd4' WHERE id = 4",
     "DELETE FROM t WHERE id = 5", "UPDATE t SET w = NULL WHERE id = 6"),
    ("t2", "ALTER TABLE t RENAME TO t2", "UPDATE t2 SET v = 7 WHERE id = 7",
     "INSERT INTO t2 VALUES (30, 'e30', 1, 1, 'b')"),
    ("t2", "ALTER TABLE t2 ALTER v TYPE bigint", "UPDATE t2 SET v = 99999999999 WHERE id = 8"),
    ("t2", "ALTER TABLE t2 ALTER w TYPE text", "UPDATE t2 SET w = 'nine' WHERE id = 9"),
    # The rows are known by another key; keys are given to other rows.
    ("t2", "ALTER TABLE t2 REPLICA IDENTITY USING INDEX t_code_key",
     "UPDATE t2 SET id = 40 WHERE code = 'c6'", "UPDATE t2 SET code = 'f7', v = 8 WHERE id = 7",
     "DELETE FROM t2 WHERE code = 'c3'", "INSERT INTO t2 VALUES (3, 'c7', 5, 'new', 'y')",
     "UPDATE t2 SET v = 1 WHERE code = 'c9'"),
    ("t3", "ALTER TABLE t2 RENAME TO t3", "ALTER TABLE t3 REPLICA IDENTITY DEFAULT",
     "UPDATE t3 SET id = 41, w = 'moved' WHERE id = 40", "DELETE FROM t3 WHERE id = 21"),
)  # fmt: skip


@dataclass
class Played:
    whole: Slice
    #: Commit LSN → what the table held after it.
    contents: dict[int, dict[str, tuple[Any, ...]]]
    #: Where each stretch ended, in the record.
    ends: list[int]


@pytest.fixture
def played(source, record, store_dsn: str) -> Iterator[Played]:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE, v int, w int, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
    )
    recording = record(source)
    contents, ends = {}, []
    for name, *statements in STRETCHES:
        source.run(*statements)
        recording.caught_up()
        last = recording.transactions(state="committed")[-1]
        with source.connect() as session:
            rows = session.execute(f"SELECT {', '.join(f'{n}::text' for n in NAMES)} FROM {name}")
            contents[int(LSN(last.commit_lsn))] = {row[0]: row for row in rows.fetchall()}
        ends.append(last.commit_seq)
    # Another table under its first name.
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE, v int, w int, big text)",
        "INSERT INTO t VALUES (1, 'other', 1, 1, 'o')",
    )
    recording.caught_up()
    recording.end()
    with reading.connect(store_dsn) as store:
        yield Played(
            reading.resolve(store, reading.SliceRequest(slot=recording.slot.name)), contents, ends
        )


def held(rows: list[Any]) -> dict[str, tuple[Any, ...]]:
    found = [tuple(None if row[n] is None else str(row[n]) for n in NAMES) for row in rows]
    assert len({row[0] for row in found}) == len(found)
    return {str(row[0]): row for row in found}


def check_history(engine, root: Path, played: Played, moments: list[int]) -> None:
    dataset = Dataset.find(str(root), "t3")
    assert dataset.names[-1] == "public.t3"
    for lsn in moments:
        result = as_of(engine, dataset, HistoryEnd(lsn=lsn))
        assert held(result.frame.collect()) == played.contents[lsn], lsn
        assert result.complete, result.reasons
    versions = row_versions(engine, dataset)
    assert versions.complete, versions.reasons
    states = versions.frame.collect()
    for lsn, content in played.contents.items():
        then = [s for s in states if s["_from_version"] <= lsn < (s["_to_version"] or 1 << 62)]
        assert held(then) == content, lsn
    assert {s["_ended_by"] for s in states} == {None, "update", "delete", "key change"}


@pytest.mark.long
def test_an_archive_answers_over_all_of_it(
    played: Played, store_dsn: str, tmp_path: Path, engine
) -> None:
    for end in (*played.ends[:3], played.whole.through_seq):
        archived(replace(played.whole, through_seq=end), tmp_path, store_dsn)
    check_history(engine, tmp_path, played, list(played.contents))

    # Another table: it has its name now, and neither has changes of the other.
    other = Dataset.find(str(tmp_path), "public.t")
    assert [row["code"] for row in as_of(engine, other).frame.collect()] == ["other"]
    [former] = other.described["other_tables_of_the_name"]
    assert Dataset.find(str(tmp_path), former).name == "public.t3"
    assert Dataset.find(str(tmp_path), "t2").name == "public.t3"
    with pytest.raises(SparkProblem, match="no table t4"):
        Dataset.find(str(tmp_path), "t4")


def test_an_export_in_pieces_does(played: Played, store_dsn: str, tmp_path: Path, engine) -> None:
    after = 0
    for end in (*played.ends[1::2], played.whole.through_seq):
        with reading.connect(store_dsn) as store:
            part = reading.resolve(
                store,
                reading.SliceRequest(slot=played.whole.slot, after_seq=after, through_seq=end),
            )
        export(part, Target.of(str(tmp_path)), dsn=store_dsn)
        after = end
    check_history(engine, tmp_path, played, list(played.contents)[-2:])

    tables = {each.name: each for each in ExportedIncarnation.find(str(tmp_path)).tables}
    assert sorted(tables) == ["public.t", "public.t3"]
    table = tables["public.t3"]
    found = who_changed(engine, [table]).frame.collect()
    assert {(r["operation"], r["column"]): r["changes"] for r in found} == {
        ("insert", None): 11, ("delete", None): 4, ("update", "id"): 4, ("update", "code"): 2,
        ("update", "v"): 4, ("update", "w"): 3,
    }  # fmt: skip
    hot = {r["code"]: r["changes"] for r in hot_rows(engine, table, top=50).frame.collect()}
    # Each row once, whichever key it was known by; one that moved has another key.
    assert {code: hot[code] for code in ("f7", "c9", "c8")} == {"f7": 1, "c9": 3, "c8": 2}
    [counted] = churn(engine, table, every="month").frame.collect()
    assert counted["changes"] == 26


def row(number: int, a: str, big: str | None = None) -> dict[str, Any]:
    return {"id": number, "a": a} | ({} if big is None else {"big": big})


def test_rows_that_cannot_be_followed_are_unknown_and_counted(tmp_path: Path, engine) -> None:
    history = History(tmp_path)
    history.commit(("T",))
    history.commit(*(("I", row(n, f"a{n}", f"b{n}")) for n in (1, 2, 3)), ("I", row(4, "a3", "b4")))
    history.commit(("U", row(2, "c2")))
    # The key is big from now on; of the row 5 nobody knows its big.
    history.commit(("U", row(5, "a5")))
    history.becomes(*V1, key=("big",))
    history.commit(("U", row(1, "d1", "b1")), ("D", {"big": "b2"}), ("U", row(5, "d5", "b5")))
    lsn = 256 * len(history.transactions)
    # Then it is a, which two rows have.
    history.becomes(*V1, key=("a",))
    history.commit(("I", row(6, "a6", "b6")))
    dataset = history.write()

    first = as_of(engine, dataset, HistoryEnd(lsn=lsn))
    names = ("id", "a", "big")
    assert sorted(tuple(r[n] for n in names) for r in first.frame.collect()) == [
        (1, "d1", "b1"), (3, "a3", "b3"), (4, "a3", "b4"), (5, "d5", "b5"),
    ]  # fmt: skip
    assert first.reasons == (
        "1 rows cannot be followed across the change of the key from (id) to (big) at 0/500: what "
        "became of them is unknown",
    )
    last = as_of(engine, dataset)
    assert sorted(r["id"] for r in last.frame.collect()) == [1, 5, 6]
    assert [reason.partition(" ")[0] for reason in last.reasons] == ["1", "2"]
    states = row_versions(engine, dataset).frame.collect()
    ended = sorted((s["id"], s["_from_version"], s["_to_version"]) for s in states
                   if s["_ended_by"] == "lost")  # fmt: skip
    assert ended == [(3, 512, 1536), (4, 512, 1536), (5, 1024, 1280)]
    found = who_changed(engine, [dataset])
    counts = {(r["operation"], r["column"]): r["changes"] for r in found.frame.collect()}
    assert counts[("update, before unknown", None)] == 2
    assert not found.complete


def test_inserts_of_a_time_without_a_key_are_rows(tmp_path: Path, engine) -> None:
    history = History(tmp_path)
    history.commit(("T",), ("I", row(1, "a", "b")))
    history.becomes(*V1, key=())
    history.commit(("I", row(2, "a", "b")))
    history.becomes(*V1)
    history.commit(("U", row(1, "x", "b")), ("U", row(3, "y", "b"), {"id": 2}))
    dataset = history.write()
    known = as_of(engine, dataset)
    assert sorted((r["id"], r["a"]) for r in known.frame.collect()) == [(1, "x"), (3, "y")]
    assert known.complete, known.reasons

    history = History(tmp_path / "more", [*history.versions[:2]])
    history.versions.pop()
    history.commit(("T",), ("I", row(1, "a", "b")))
    history.becomes(*V1, key=())
    history.commit(("U", row(2, "a", "b")))
    history.becomes(*V1)
    history.commit(("I", row(3, "a", "b")))
    unknown = as_of(engine, history.write())
    assert [r["id"] for r in unknown.frame.collect()] == [3]
    assert [reason[:10] for reason in unknown.reasons] == ["1 changes ", "1 rows can"]


def test_a_table_whose_key_changed_has_the_same_history_in_pieces(
    tmp_path: Path, engine, monkeypatch
) -> None:
    history = History(tmp_path)
    history.commit(*(("I", row(n, f"a{n}", f"b{n}")) for n in range(20)))
    history.becomes(*V1, key=("a",))
    # Rows move in both stretches, and between them their key is another one.
    history.commit(*(("U", row(n, f"a{n + 20}", f"b{n}"), {"a": f"a{n}"}) for n in range(10)))
    history.becomes(*V1)
    history.commit(*(("U", row(n + 50, "z", f"b{n}"), {"id": n}) for n in range(5, 15)))
    dataset = history.write()

    def answers() -> list[list[tuple[Any, ...]]]:
        found = (as_of(engine, dataset), row_versions(engine, dataset),
                 who_changed(engine, [dataset]), hot_rows(engine, dataset, top=100))  # fmt: skip
        return [sorted(map(tuple, each.frame.collect()), key=str) for each in found]

    whole = answers()
    counts = {(operation, column): n for _, _, operation, column, n in whole[2]}
    assert counts == {("insert", None): 20, ("update", "a"): 20, ("update", "id"): 10}
    monkeypatch.setattr(row_states, "PIECE_VALUES", 12)
    assert answers() == whole
