"""The one JSON form of a change, and the order in which a slot's changes stream."""

import json

import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import AbortedSubtransaction
from replview.store.read.changes import stream as change_stream
from replview.store.read.changes.stream import StreamCursor, last_cursor
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.recorded import iterate_changes

pytestmark = pytest.mark.django_db


@pytest.fixture
def history() -> History:
    make_partitions()
    return History()


def records(history: History, **options) -> list[dict]:
    return [record for _, record in iterate_changes(reading_session(), history.slot, **options)]


def places(history: History, **options) -> list[tuple[int, int]]:
    return [(record["commit_seq"], record["seq"]) for record in records(history, **options)]


def test_an_update_is_exactly_as_designed(history) -> None:
    history.commit(
        {"op": "U", "new": {"id": "42", "status": "paid"}, "subxid": 758},
        xid=757,
        actor="alice",
        context={"request_id": "r1"},
        commit_lsn=LSN.parse("0/1B2C3D8"),
        end_lsn=LSN.parse("0/1B2C408"),
    )

    (record,) = records(history)

    assert json.dumps(record) == json.dumps({
        "slot": "replview", "incarnation": 1, "transaction": record["transaction"],
        "commit_seq": 1, "xid": 757, "gid": None,
        "commit_lsn": "0/1B2C3D8", "end_lsn": "0/1B2C408",
        "commit_time": "2026-11-20T07:57:11.369827Z", "origin": None, "actor": "alice",
        "context": {"request_id": "r1"},
        "seq": 1, "lsn": "0/3E9", "subxid": 758, "op": "update", "schema": "public",
        "table": "orders", "relation_oid": 16384, "version": 1,
        "key": {"id": "42"}, "old": None, "new": {"id": "42", "status": "paid"},
        "not_sent": ["note"],
    })  # fmt: skip


def test_columns_stand_in_the_order_of_the_table(history) -> None:
    wide = history.table("wide", 9, ["longest_name", "id", "b", "aa"])
    new = {"aa": "1", "b": "2", "id": "3", "longest_name": "4"}
    history.commit({"op": "I", "new": new, "version": wide})

    (record,) = records(history)

    assert list(record["new"]) == ["longest_name", "id", "b", "aa"]


def test_a_moved_key_is_the_one_before(history) -> None:
    history.commit(
        {
            "op": "U",
            "old_kind": "K",
            "old": {"id": "1"},
            "new": {"id": "2", "status": "x", "note": None},
        }
    )
    (record,) = records(history)
    assert (record["key"], record["old"], record["not_sent"]) == ({"id": "1"}, {"id": "1"}, [])


def test_a_delete_tells_what_the_key_does_not_hold(history) -> None:
    history.commit({"op": "D", "old_kind": "K", "old": {"id": "1"}})
    (record,) = records(history)
    assert record["op"] == "delete"
    assert (record["key"], record["new"]) == ({"id": "1"}, None)
    assert record["not_sent"] == ["status", "note"]


def test_marked_values_stay_marked_and_a_dropped_key_is_unknown(history) -> None:
    named = {"$too_large": 9, "$sha256": "ab12"}
    masked = {"id": {"$masked": True}, "status": {"$binary": "AA=="}, "note": named}
    history.commit({"op": "I", "new": masked}, {"op": "I", "new": {"status": "x"}})
    first, second = records(history)
    assert first["new"] == masked
    assert first["key"] == {"id": {"$masked": True}}
    assert second["key"] is None


def test_truncate_and_messages_have_fields_of_their_own(history) -> None:
    history.commit({"op": "T", "new": {"cascade": True, "restart_identity": False}})
    history.commit(
        {"op": "M", "new": {"prefix": "p", "content": "text", "transactional": False}},
        state="message",
        xid=None,
        commit_lsn=None,
        commit_time=None,
    )
    history.commit(
        {"op": "M", "new": {"prefix": "p", "content_base64": "/w==", "transactional": True}}
    )

    truncate, message, binary = records(history)

    assert (truncate["op"], truncate["cascade"], truncate["restart_identity"]) == (
        "truncate", True, False
    )  # fmt: skip
    assert truncate["table"] == "orders"
    assert (message["xid"], message["commit_lsn"], message["commit_seq"]) == (None, None, 2)
    assert (message["content"], message["transactional"], message["table"]) == ("text", False, None)
    assert binary["content_base64"] == "/w=="
    assert "content" not in binary
    for record in (truncate, message):
        assert (record["new"], record["not_sent"]) == (None, [])


def test_a_change_names_the_table_as_it_was(history) -> None:
    history.commit(insert(1))
    renamed = history.table("bestellungen", 16384, ["id", "status"], number=2)
    history.commit({"op": "I", "new": {"id": "2", "status": "x"}, "version": renamed})

    assert [(r["table"], r["version"]) for r in records(history)] == [
        ("orders", 1), ("bestellungen", 2)
    ]  # fmt: skip
    assert len(records(history, relation=("public", "bestellungen"))) == 2


@pytest.mark.parametrize("page", [1, 2, 3, 2000])
def test_the_order_is_that_of_commits_whatever_the_page(history, monkeypatch, page) -> None:
    monkeypatch.setattr(change_stream, "PAGE", page)
    sizes = [1, 3, 1, 1, 5, 1, 2]
    for size in sizes:
        history.commit(*[insert(n) for n in range(size)])
    history.commit(insert(1), state="streaming")

    expected = [(n, seq) for n, size in enumerate(sizes, 1) for seq in range(1, size + 1)]
    assert places(history) == expected


def test_aborted_subtransactions_are_hidden(history) -> None:
    identifier = history.commit(insert(1), insert(2, subxid=9), insert(3))
    AbortedSubtransaction.objects.create(transaction_id=identifier, subxid=9)
    assert places(history) == [(1, 1), (1, 3)]


def test_going_on_from_a_cursor_through_a_new_incarnation(history) -> None:
    history.commit(insert(1))
    history.commit(insert(2))
    history.new_incarnation()
    history.commit(insert(3))

    rest = records(history, after=StreamCursor(1, 1))

    assert [(r["incarnation"], r["commit_seq"]) for r in rest] == [(1, 2), (2, 1)]
    assert last_cursor(reading_session(), history.slot) == StreamCursor(2, 1)
    assert records(history, after=StreamCursor(2, 1)) == []


def test_lsn_bounds_are_those_of_commits_in_the_present_incarnation(history) -> None:
    history.commit(insert(0))
    history.new_incarnation()
    for number in range(1, 5):
        history.commit(insert(number))
    lsns = [LSN.parse(r["commit_lsn"]) for r in records(history)][1:]

    assert places(history, from_lsn=lsns[1], to_lsn=lsns[2]) == [(2, 1), (3, 1)]
    assert places(history, to_lsn=lsns[0]) == [(1, 1)]


def test_one_table_alone(history) -> None:
    items = history.table("items", 2, ["id"])
    history.commit(insert(1), {"op": "I", "new": {"id": "7"}, "version": items})
    history.commit(insert(2))

    (record,) = records(history, relation=("public", "items"))

    assert (record["commit_seq"], record["seq"]) == (1, 2)
    assert records(history, relation=("public", "nothing")) == []


def test_memory_is_bounded_by_the_page(history, django_assert_max_num_queries, monkeypatch) -> None:
    monkeypatch.setattr(change_stream, "PAGE", 50)
    history.commit(*[insert(n) for n in range(500)])
    stream = iterate_changes(reading_session(), history.slot)
    # One of them reads the mask rules, unless they were read a moment ago.
    with django_assert_max_num_queries(10):
        for _ in range(40):
            next(stream)
