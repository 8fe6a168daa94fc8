"""History jobs answer rightly about a table whose every change is known."""

import datetime as dt

import pytest

from replview.parquet.erasure.finding import FileErasure
from replview.parquet.erasure.roots import ErasureRoot
from replview.parquet.slices import TableVersion
from replview.spark.history import row_states
from replview.spark.history.activity import (
    churn,
    hot_rows,
    transaction_rates,
    transaction_sizes,
    who_changed,
)
from replview.spark.history.datasets import Dataset
from replview.spark.history.results import without_masked
from replview.spark.history.snapshots import as_of, row_versions, schema_versions
from replview.spark.history.spans import HistoryEnd, HistoryRange
from replview.spark.sessions import SparkProblem
from replview.store.read.row_history.trails import KeySpan, key_of
from tests.support.written_history import BEGAN, OID, V1, History, column

pytestmark = pytest.mark.slow

#: For tests that CI runs on Spark every time.
each_time_on_spark = pytest.mark.parametrize("engine", ["duckdb", "spark"], indirect=True)


def row(number: int, a: str, big: str | None = None) -> dict:
    return {"id": number, "a": a} | ({} if big is None else {"big": big})


@pytest.fixture
def history(tmp_path) -> History:
    """A row that moves twice and back, one that is deleted, a truncation, a baseline."""
    history = History(tmp_path)
    history.commit(("I", row(1, "x", "large")), ("I", row(2, "y", "other")), actor="alice",
                   actors=["carol", "alice"])  # fmt: skip
    history.commit(("U", row(3, "x"), {"id": 1}), actor="bob")  # 1 becomes 3
    history.commit(("U", row(4, "z"), {"id": 3}), ("U", row(4, "zz")), actor="bob")
    history.commit(("D", {"id": 2}), actor="alice")
    return history


def rows(result, *names: str) -> list[tuple]:
    return sorted(tuple(each[name] for name in names) for each in result.frame.collect())


def test_as_of_follows_a_row_through_its_keys(history, engine) -> None:
    dataset = history.write()

    now = as_of(engine, dataset)
    assert rows(now, "id", "a", "big", "_actor", "_unknown") == [(4, "zz", "large", "bob", [])]
    assert not now.complete
    assert "no baseline" in now.reasons[0]
    before = as_of(engine, dataset, HistoryEnd(lsn=512))
    assert rows(before, "id", "a", "big") == [(2, "y", "other"), (3, "x", "large")]
    early = as_of(engine, dataset, HistoryEnd(time=BEGAN + dt.timedelta(minutes=7)))
    assert rows(early, "id", "a", "big") == [(1, "x", "large"), (2, "y", "other")]


@each_time_on_spark
def test_as_of_begins_with_the_last_truncation_or_baseline(history, engine) -> None:
    history.commit(("I", row(5, "old", "o")), ("T",), ("I", row(6, "new", "n")))
    truncated = history.commit(("I", row(7, "more", "m")))
    history.commit(("I", row(8, "read", "r")), baseline=True)
    history.commit(("I", row(9, "last", "l")))
    dataset = history.write()

    first = as_of(engine, dataset, HistoryEnd(lsn=truncated))
    assert rows(first, "id") == [(6,), (7,)]
    assert (first.complete, first.details["begins"]["with"]) == (True, "truncation")
    last = as_of(engine, dataset)
    assert rows(last, "id") == [(8,), (9,)]
    assert (last.complete, last.details["begins"]["with"]) == (True, "baseline")


def test_before_the_first_change_nothing_is_there(history, engine) -> None:
    dataset, moment = history.write(), HistoryEnd(lsn=1)
    span = HistoryRange(to_lsn=1)
    assert as_of(engine, dataset, moment).frame.collect() == []
    assert row_versions(engine, dataset, moment).frame.collect() == []
    assert who_changed(engine, [dataset], span).frame.collect() == []
    assert hot_rows(engine, dataset, span).frame.collect() == []


def test_what_is_missing_is_said(history, engine) -> None:
    history.commit(("T",))
    history.commit(("I", row(1, "x", "y")))
    history.becomes(*V1, column("added", "integer"))
    history.commit(("I", row(2, "x", "y") | {"added": 7}))
    dataset = history.write(after=6)

    result = as_of(engine, dataset, HistoryEnd(lsn=9999))
    assert [reason.partition(",")[0] for reason in result.reasons] == [
        "transactions 5 to 7 of it are not exported whole",
        "what is exported ends at 0/700",
    ]
    assert rows(result, "id", "_unknown") == [(1, ["added"]), (2, [])]

    # What is counted is not called whole either.
    who = who_changed(engine, [dataset], HistoryRange(from_lsn=1, to_lsn=9999))
    assert [reason.partition(",")[0] for reason in who.reasons] == [
        "what is exported ends at 0/700",
        "what is exported begins at 0/100",
        "transactions 1 to 7 of it are not exported whole",
    ]
    long_ago = HistoryRange(until=BEGAN - dt.timedelta(days=1))
    nothing = transaction_rates(engine, dataset.incarnation, long_ago)
    assert nothing.reasons == ("no transaction of that time is exported",)


def test_a_time_in_which_the_table_was_not_published_is_said(history, engine) -> None:
    gap = {
        "kind": "unpublished", "table": "public.t", "oid": OID, "operations": "IUDT",
        "from_lsn": "0/150", "to_lsn": "0/250", "why": "public.t was not published for a time",
    }  # fmt: skip
    other = {**gap, "oid": OID + 1, "why": "public.u was not published for a time"}
    dataset = history.write(gaps=[gap, other])

    said = "public.t was not published for a time"
    assert [reason for reason in as_of(engine, dataset).reasons if "published" in reason] == [said]
    assert said not in as_of(engine, dataset, HistoryEnd(lsn=0x100)).reasons
    assert said in who_changed(engine, [dataset], HistoryRange(from_lsn=0x100)).reasons
    assert said not in who_changed(engine, [dataset], HistoryRange(from_lsn=0x300)).reasons


def test_rows_without_a_key_are_refused(tmp_path, engine) -> None:
    history = History(tmp_path, [TableVersion(id=1, number=1, columns=V1)])
    history.commit(("I", row(1, "x", "y")), ("U", row(1, "z")), actor="alice")
    dataset = history.write()

    with pytest.raises(SparkProblem, match="cannot be told apart"):
        as_of(engine, dataset)
    # Who changed all tables does not fail for the sake of one.
    who = who_changed(engine, [dataset])
    assert rows(who, "actor", "operation", "column", "changes") == [
        ("alice", "insert", None, 1), ("alice", "update, before unknown", None, 1),
    ]  # fmt: skip
    assert who.details["not_compared_for_want_of_one_key"] == ["public.t"]


def test_every_state_has_its_time(history, engine) -> None:
    history.commit(("I", row(4, "zz", "large")), baseline=True)  # tells nothing new
    history.commit(("T",))
    result = row_versions(engine, history.write())

    names = ("id", "a", "big", "_from_version", "_to_version", "_ended_by", "_is_current")
    assert rows(result, *names) == [
        (1, "x", "large", 256, 512, "key change", False),
        (2, "y", "other", 256, 1024, "delete", False),
        (3, "x", "large", 512, 768, "key change", False),
        # What it was within its transaction nobody saw.
        (4, "zz", "large", 768, 1536, "truncate", False),
    ]
    [ended] = rows(result, "valid_from", "valid_to")[-1:]
    assert ended[1] - ended[0] == dt.timedelta(minutes=15)


@each_time_on_spark
def test_who_changed_what_compares_with_the_row_before(history, engine) -> None:
    history.commit(("U", row(4, "zz", "new")), ("U", row(99, "?")), actor="carol")
    dataset = history.write()
    result = who_changed(engine, [dataset])

    assert result.complete
    found = result.frame.collect()
    assert {each["table"] for each in found} == {"public.t"}
    assert {(r["actor"], r["operation"], r["column"]): r["changes"] for r in found} == {
        ("alice", "insert", None): 2,
        ("alice", "delete", None): 1,
        ("bob", "update", "id"): 2,
        ("bob", "update", "a"): 2,
        ("carol", "update", "big"): 1,
        ("carol", "update, before unknown", None): 1,
    }
    masked = who_changed(engine, [dataset], masked={"public.t": ["id", "a"]})
    assert masked.details["not_counted"] == ["public.t.a", "public.t.id"]
    assert {each["column"] for each in masked.frame.collect()} == {None, "big"}
    later = who_changed(engine, [dataset], HistoryRange(from_lsn=1280)).frame.collect()
    assert {each["actor"] for each in later} == {"carol"}


@each_time_on_spark
def test_a_table_replayed_in_pieces_has_the_same_history(history, engine, monkeypatch) -> None:
    history.commit(*(("I", row(number, "x", "large")) for number in range(10, 20)))
    history.commit(*(("U", row(number + 20, "y"), {"id": number}) for number in range(10, 15)))
    history.commit(*(("U", row(number, "z")) for number in (30, 31, 15, 16)), actor="bob")
    dataset = history.write()

    def answers() -> list[list[tuple]]:
        found = [row_versions(engine, dataset).frame, who_changed(engine, [dataset]).frame]
        names = [("id", "a", "big", "_from_version", "_ended_by"),
                 ("actor", "operation", "column", "changes")]  # fmt: skip
        return [
            sorted((tuple(each[name] for name in mine) for each in frame.collect()), key=str)
            for frame, mine in zip(found, names, strict=True)
        ]

    whole = answers()
    monkeypatch.setattr(row_states, "PIECE_VALUES", 12)
    assert answers() == whole
    assert row_states.TableReplay(engine, dataset, None, [0]).pieces == 9
    # Of large values fewer changes fit into memory.
    monkeypatch.undo()
    assert row_states.TableReplay(engine, dataset, None, [0]).pieces == 1
    monkeypatch.setattr(row_states, "PIECE_BYTES", dataset.size_bytes // 3)
    assert row_states.TableReplay(engine, dataset, None, [0]).pieces in (4, 5)
    assert row_states.TableReplay(engine, dataset, None, []).pieces == 1
    assert (30, "z", "large", 1792, None) in whole[0]


def test_counts_of_rows_transactions_and_shapes(history, engine) -> None:
    history.becomes(*V1[:2], column("big", "bytea"), column("n", "bigint"))
    history.commit(("I", {"id": 7, "a": "w", "n": 1}), actor="alice")
    dataset = history.write()

    found = churn(engine, dataset, every="day")
    assert rows(found, "inserts", "updates", "deletes", "transactions", "actors") == [
        (1, 3, 1, 4, 2), (2, 0, 0, 1, 1),
    ]  # fmt: skip
    hot = hot_rows(engine, dataset, top=2).frame.collect()
    assert [(each["id"], each["changes"]) for each in hot] == [(2, 2), (4, 2)]
    found = transaction_sizes(engine, dataset.incarnation)
    sizes = {each["measure"]: each for each in found.frame.collect()}
    assert (sizes["changes"]["p50"], sizes["changes"]["largest"]) == (1.0, 2)
    rates = transaction_rates(engine, dataset.incarnation, HistoryRange(to_lsn=512), every="month")
    assert rows(rates, "transactions", "changes", "actors") == [(2, 3, 3)]
    shapes = schema_versions(engine, dataset).frame.collect()
    assert [(s["version"], s["added"], s["retyped"]) for s in shapes] == [
        (1, [], []), (2, ["n"], ["big: text → bytea"]),
    ]  # fmt: skip


@pytest.mark.long
def test_masked_columns_are_null_and_marked_in_what_is_given(history, engine) -> None:
    dataset, masked = history.write(), {"public.t": ["a", "id"]}
    for result in (as_of(engine, dataset), row_versions(engine, dataset)):
        given = without_masked(result, dataset, masked)
        assert {tuple(each) for each in rows(given, "id", "a")} == {(None, None)}
        mark = {"a": '{"$masked":true}', "id": '{"$masked":true}'}
        assert [each["_pg_raw"] for each in given.frame.collect()] == [mark] * len(rows(result))
        assert rows(given, "big") == rows(result, "big")
    [hot, *_] = rows(
        without_masked(hot_rows(engine, dataset, HistoryRange()), dataset, masked), "id"
    )
    assert hot == (None,)
    assert without_masked(result, dataset, {"public.other": ["a"]}) is result


@pytest.mark.long
def test_an_erased_row_breaks_no_job_and_no_other_row(history, engine, tmp_path) -> None:
    history.commit(("I", row(5, "stays", "s")), ("U", row(5, "stayed")))
    history.write()
    wanted = FileErasure(
        erasure=1, day="2026-11-22", homes=[("source", "slot")],
        tables={OID: [KeySpan(key_of({"id": "2"}))]},
    )  # fmt: skip
    assert ErasureRoot.of(str(tmp_path), wanted).erase().rows == 2
    dataset = Dataset.find(str(tmp_path), "public.t")
    now = as_of(engine, dataset)
    assert rows(now, "id", "a", "big") == [(4, "zz", "large"), (5, "stayed", "s")]
    versions = row_versions(engine, dataset)
    assert [each for each in rows(versions, "id", "a") if each[0] == 5] == [(5, "stayed")]
    assert who_changed(engine, [dataset], HistoryRange()).frame.count() > 0
