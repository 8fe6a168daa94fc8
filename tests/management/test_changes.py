"""``replview changes``."""

import json
import threading
import time
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert


@pytest.fixture
def history(db) -> History:
    make_partitions()
    return History()


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_json_lines_in_commit_order(run, history) -> None:
    history.commit(insert(1), insert(2))
    history.commit(insert(3))

    found = lines(run("changes", "--slot", "shop/replview"))

    assert [(r["commit_seq"], r["key"]["id"]) for r in found] == [(1, "1"), (1, "2"), (2, "3")]


def test_filters(run, history) -> None:
    items = history.table("items", 2, ["id"])
    history.commit(insert(1), {"op": "I", "new": {"id": "7"}, "version": items})
    history.commit(insert(2))
    (last,) = lines(run("changes", "--slot", "replview", "--relation", "items"))
    assert last["table"] == "items"
    (record,) = lines(
        run("changes", "--slot", "replview", "--relation", "public.orders", "--to-lsn", "0/76C")
    )
    assert record["commit_lsn"] == "0/76C"


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--slot", "none"], "there is no slot none; known: shop/replview"),
        (["--slot", "replview", "--from-lsn", "zero"], "zero is not an LSN"),
        (["--slot", "replview", "--relation", "orders."], "write schema.table"),
    ],
)
def test_what_cannot_be_asked_is_said(run, history, words, cause) -> None:
    with pytest.raises(CommandError, match=cause):
        run("changes", *words)


def test_a_name_that_two_sources_have_must_be_qualified(run, history) -> None:
    from replview.store.models import Slot, Source

    Slot.objects.create(source=Source.objects.create(name="other", conninfo=""), name="replview")
    with pytest.raises(CommandError, match="write SOURCE/replview"):
        run("changes", "--slot", "replview")


@pytest.mark.django_db(transaction=True)
def test_follow_goes_on_with_what_comes_and_ends_with_the_slot(history) -> None:
    history.commit(insert(1))
    out = StringIO()
    words = ["changes", "--slot", "replview", "--follow"]
    follower = threading.Thread(target=_follow, args=[words, out])
    follower.start()

    _wait_for(lambda: out.getvalue().count("\n") == 1)
    history.commit(insert(2))
    _wait_for(lambda: out.getvalue().count("\n") == 2)
    history.new_incarnation()
    history.commit(insert(3))
    _wait_for(lambda: out.getvalue().count("\n") == 3)
    history.slot.delete()
    follower.join(5)

    assert not follower.is_alive()
    assert [r["incarnation"] for r in lines(out.getvalue())] == [1, 1, 2]


def _follow(words: list[str], out: StringIO) -> None:
    from django.db import connection

    try:
        call_command(*words, stdout=out)
    finally:
        connection.close()


def _wait_for(condition) -> None:
    until = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def several(history) -> History:
    """Two tables, two people, an update."""
    items = history.table("items", 2, ["id"])
    history.commit(insert(1), insert(2), actor="alice")
    history.commit({"op": "I", "new": {"id": "7"}, "version": items}, gid="batch")
    old = {"id": "1", "status": "new", "note": None}
    new = {**old, "status": "paid"}
    history.commit({"op": "U", "old_kind": "O", "old": old, "new": new}, actor="bob")
    return history


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["--op", "update"], [(3, 1)]),
        (["--op", "I", "--actor", "alice"], [(1, 1), (1, 2)]),
        (["--actor", "?"], [(2, 1)]),
        (["--gid", "batch"], [(2, 1)]),
        (["--xid", "703"], [(3, 1)]),
        (["--table", "orders", "--where", "status: new -> paid"], [(3, 1)]),
        (["--table", "orders", "--table", "items", "--where", "id = 7"], [(2, 1)]),
        (["--until", "2020-01-01"], []),
        (["--since", "2020-01-01", "--limit", "2"], [(1, 1), (1, 2)]),
        (["--newest", "2"], [(2, 1), (3, 1)]),
        (["--state", "message"], []),
        (["--text", "PAID"], [(3, 1)]),
        (["--min-changes", "2"], [(1, 1), (1, 2)]),
        (["--min-bytes", "100000000"], []),
        (["--prepared-min", "1"], []),
    ],
)
def test_every_filter_of_the_pages(run, several, words, places) -> None:
    found = lines(run("changes", "--slot", "replview", *words))
    assert [(r["commit_seq"], r["seq"]) for r in found] == places


def test_the_history_of_one_row(run, history) -> None:
    from replview.store.read.rows import signed_hash

    key = {"key_hash": signed_hash(["42"])}
    history.commit(insert(42, **key), insert(43))
    history.commit({"op": "D", "old_kind": "K", "old": {"id": "42"}, **key})
    found = lines(run("changes", "--slot", "replview", "--table", "orders", "--row", "id=42"))
    assert [r["op"] for r in found] == ["insert", "delete"]


def test_csv_and_parquet_go_where_they_are_told(run, several, tmp_path) -> None:
    import pyarrow.parquet as pq

    assert run("changes", "--slot", "replview", "--format", "csv").startswith("slot,incarnation")
    file = tmp_path / "orders.parquet"
    words = ["changes", "--slot", "replview", "--format", "parquet", "--output"]
    run(*words, str(file), "--table", "orders")
    assert pq.read_table(file).column("_change_type").to_pylist() == [
        "insert", "insert", "update_preimage", "update_postimage"
    ]  # fmt: skip
    run(*words, str(tmp_path / "slice"))
    assert len(list((tmp_path / "slice").iterdir())) == 4
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--where", "status"], "after status comes"),
        (["--table", "orders", "--where", "statuz = 1"], "no column statuz"),
        (["--row", "42"], "name one table"),
        (["--table", "orders", "--row", "id=1, b=2"], "b is not part of the key"),
        (["--since", "some day"], "not understood: since"),
        (["--format", "parquet"], "give --output"),
        (["--xid", "1", "--gid", "x"], "--xid or --gid"),
        (
            ["--table", "orders", "--row", "1", "--min-bytes", "7"],
            "--min-bytes cannot be combined with",
        ),
        (["--newest", "1", "--format", "parquet", "--output", "x"], "cannot be combined with"),
        (["--output", "/nowhere/at/all"], "cannot be written"),
    ],
)
def test_what_does_not_go_is_said(run, several, words, cause) -> None:
    with pytest.raises(CommandError, match=cause):
        run("changes", "--slot", "replview", *words)
