"""Transactions over the API."""

import pytest
from django.test import Client

from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert


@pytest.fixture
def record(db) -> History:
    make_partitions()
    return History()


def test_they_come_newest_first_with_their_tables(program: Client, record: History) -> None:
    record.commit(insert(1), actor="alice", actor_grade="claimed")
    record.commit(insert(2), insert(3))

    answer = program.get("/api/v1/transactions?slot=shop/replview").json()

    assert [one["commit_seq"] for one in answer["items"]] == [2, 1]
    assert answer["items"][1]["actor"] == "alice"
    assert answer["items"][1]["slot"] == "shop/replview"
    assert answer["items"][0]["actor_grade"] == "unknown"
    assert answer["items"][0]["tables"][0]["table"] == "orders"
    assert answer["complete"]


def test_paging_through_gives_each_once(program: Client, record: History) -> None:
    for number in range(25):
        record.commit(insert(number))

    seen, cursor = [], ""
    while cursor is not None:
        url = f"/api/v1/transactions?limit=7&cursor={cursor}"
        answer = program.get(url).json()
        seen += [one["commit_seq"] for one in answer["items"]]
        cursor = answer["older"]

    assert seen == list(range(25, 0, -1))


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("cursor=nonsense", "cursor"),
        ("since=sometime", "since"),
        ("from_lsn=x", "from_lsn"),
        ("limit=0", "limit"),
        ("limit=100000", "limit"),
    ],
)
def test_what_means_nothing_is_refused_by_name(
    program: Client, record: History, query: str, word: str
) -> None:
    answer = program.get(f"/api/v1/transactions?{query}")

    assert answer.status_code == 400
    assert word in answer.json()["error"]


def test_an_unknown_slot_is_named(program: Client, record: History) -> None:
    answer = program.get("/api/v1/transactions?slot=shop/nothing")

    assert answer.status_code == 404
    assert "shop/nothing" in answer.json()["error"]


def test_one_of_them(program: Client, record: History) -> None:
    identifier = record.commit(insert(1), origin="north")

    one = program.get(f"/api/v1/transactions/{identifier}").json()

    assert (one["origin"], one["counts"]["insert"]) == ("north", 1)
    assert program.get("/api/v1/transactions/1").status_code == 404
    assert program.get(f"/api/v1/transactions/{1 << 70}").status_code == 404
