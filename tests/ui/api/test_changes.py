"""Changes, rows, tables, actors and coverage over the API."""

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from replview.store.models import Relation, Slot
from replview.store.read.rows import signed_hash
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert


def update(number: int, status: str) -> dict:
    """An update of which the server sent no old row."""
    new = {"id": str(number), "status": status, "note": None}
    return {"op": "U", "new": new, "key_hash": signed_hash([str(number)])}


@pytest.fixture
def record(db) -> History:
    make_partitions()
    record = History()
    record.commit(insert(1), insert(2), actor="alice", actor_grade="claimed")
    record.commit(update(1, "paid"))
    record.commit(update(2, "paid"), update(2, "sent"), actor="bob", actor_grade="stamped")
    return record


def test_changes_come_newest_first_in_the_one_form(program: Client, record: History) -> None:
    answer = program.get("/api/v1/changes?slot=shop/replview").json()

    assert [(one["commit_seq"], one["seq"]) for one in answer["items"]] == [
        (3, 2), (3, 1), (2, 1), (1, 2), (1, 1),
    ]  # fmt: skip
    assert answer["items"][0]["new"]["status"] == "sent"
    assert answer["items"][0]["key"] == {"id": "2"}
    assert answer["coverage"]["recorded_since"]


def test_changes_are_found_by_value(program: Client, record: History) -> None:
    answer = program.get("/api/v1/changes?tables=public.orders&where=status = paid").json()

    assert [one["commit_seq"] for one in answer["items"]] == [3, 2]
    assert answer["coverage"]["table"]["table"] == "orders"


def test_history_is_followed_in_order_and_goes_on_where_it_ended(
    program: Client, record: History
) -> None:
    seen, cursor = [], ""
    for _ in range(4):
        answer = program.get(f"/api/v1/history?limit=2&cursor={cursor}").json()
        seen += [(one["commit_seq"], one["seq"]) for one in answer["items"]]
        cursor = answer["next"]
    assert seen == [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]

    record.commit(insert(3))

    answer = program.get(f"/api/v1/history?cursor={cursor}").json()
    assert [one["commit_seq"] for one in answer["items"]] == [4]


def test_the_changes_of_one_transaction(program: Client, record: History) -> None:
    identifier = record.commit(*(insert(number) for number in range(10, 15)))
    url = f"/api/v1/transactions/{identifier}/changes"

    first = program.get(f"{url}?limit=3").json()
    second = program.get(f"{url}?limit=3&cursor={first['next']}").json()

    assert [one["seq"] for one in first["items"] + second["items"]] == [1, 2, 3, 4, 5]
    assert (first["complete"], second["complete"], second["next"]) == (False, True, None)


def test_what_has_not_committed_has_no_place(program: Client, record: History) -> None:
    identifier = record.commit(insert(7), state="aborted")

    answer = program.get(f"/api/v1/transactions/{identifier}/changes")

    assert answer.status_code == 400
    assert "aborted" in answer.json()["error"]


@pytest.mark.parametrize(
    "query", ["where=status !", "cursor=x", "since=never", "tables=public.orders&where=nothing = 1"]
)
def test_what_cannot_be_asked_is_refused(program: Client, record: History, query: str) -> None:
    answer = program.get(f"/api/v1/changes?{query}")

    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize("key", ["9", "id=9"])
def test_a_row_has_a_history_and_a_state(program: Client, record: History, key: str) -> None:
    record.commit(insert(9), actor="alice")
    record.commit(update(9, "paid"))
    behind = program.get(f"/api/v1/rows/as-of?table=public.orders&key={key}").json()
    Slot.objects.update(last_commit_time=timezone.now())

    history = program.get(f"/api/v1/rows?table=public.orders&key={key}").json()
    now = program.get(f"/api/v1/rows/as-of?table=public.orders&key={key}").json()

    assert [one["op"] for one in history["items"]] == ["update", "insert"]
    assert history["items"][0]["before"]["status"] == "new"
    assert history["items"][0]["before_kind"] == "derived"
    assert history["complete"]
    assert history["other_rows"] == []
    assert (now["exists"], now["values"]["status"], now["last_known"]) == (True, "paid", None)
    # A change that is not stored yet may have changed the row.
    assert (behind["exists"], behind["why"], behind["values"]) == (None, "not stored", {})
    assert behind["last_known"]["values"]["status"] == "paid"


@pytest.mark.parametrize(
    "path", ["changes?tables=public.ordres", "transactions?tables=public.ordres"]
)
def test_a_table_that_never_was_is_refused(program: Client, record: History, path: str) -> None:
    answer = program.get(f"/api/v1/{path}&slot=shop/replview")
    assert answer.status_code == 400
    assert answer.json()["error"] == "no change of a table public.ordres is recorded"


def test_what_fails_is_told_as_json(program: Client, record: History, monkeypatch) -> None:
    def fail(error: Exception) -> Client:
        def failing(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("replview.features.transactions.api.find_changes", failing)
        return program

    for error, status in ((OperationalError("gone"), 503), (RuntimeError("secret"), 500)):
        answer = fail(error).get("/api/v1/changes?slot=shop/replview")
        assert answer.status_code == status
        assert set(answer.json()) == {"error", "remedy"}
        assert "secret" not in answer.content.decode()


def test_every_record_names_its_transaction(program: Client, record: History) -> None:
    items = program.get("/api/v1/changes?slot=shop/replview").json()["items"]
    known = {one["id"] for one in program.get("/api/v1/transactions").json()["items"]}
    assert {one["transaction"] for one in items} == known


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("table=public.nothing&key=1", 404),
        ("table=public.orders&key=", 400),
        ("table=public.orders&key=other=1", 200),  # a value like any other
        ("table=public.orders&key=1&cursor=nonsense", 400),
        ("key=1", 400),
    ],
)
def test_a_row_that_cannot_be_named_is_refused(
    program: Client, record: History, query: str, status: int
) -> None:
    assert program.get(f"/api/v1/rows?{query}").status_code == status


def test_tables_and_their_versions(program: Client, record: History) -> None:
    Relation.objects.update(current_version=record.orders)
    listed = program.get("/api/v1/relations?slot=shop/replview").json()["items"]
    one = program.get(f"/api/v1/relations/{listed[0]['relation']}").json()

    assert (listed[0]["table"], listed[0]["key_columns"]) == ("orders", ["id"])
    assert [version["version"] for version in one["versions"]] == [1]
    assert program.get("/api/v1/relations/999999").status_code == 404


def test_actors_and_what_they_did(program: Client, record: History) -> None:
    listed = program.get("/api/v1/actors").json()["items"]
    bob = program.get("/api/v1/actors/one?actor=bob").json()

    assert {one["actor"] for one in listed} == {"alice", "bob", ""}
    assert (bob["stamped"], bob["tables"][0]["table"]) == (1, "orders")
    assert program.get("/api/v1/actors/one?actor=nobody").status_code == 404


def test_coverage_says_since_when(program: Client, record: History) -> None:
    told = program.get("/api/v1/coverage?table=public.orders").json()

    assert told["recorded_since"]
    assert told["gaps"] == []
    # Nobody has looked at the publications: nothing can be vouched for.
    assert told["whole_since"] is None
    assert program.get("/api/v1/coverage?table=orders").status_code == 400
