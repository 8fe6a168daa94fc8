"""``current`` is right in histories where rows are hard to tell apart."""

from types import SimpleNamespace
from typing import Any

import pytest

from decoder.scalars import LSN
from replview.spark.lake import current, feeding
from replview.spark.lake.feeding import Feed
from replview.spark.lake.tables import CURRENT
from replview.store.models import RelationVersion, SlotEvent
from replview.store.read.rows import signed_hash
from replview.store.retention.tidy import make_partitions
from tests.spark.lake.conftest import MakeFeed, killed_after
from tests.support.history_rows import WHEN, History, insert

pytestmark = [pytest.mark.slow, pytest.mark.long]


def update(number: int, status: str, **more: Any) -> dict[str, Any]:
    """An update that does not send the note, unless it is among ``more``."""
    new = {"id": str(number), "status": status, **more}
    return {"op": "U", "new": new, "key_hash": signed_hash([str(number)])}


def delete(number: int) -> dict[str, Any]:
    key = {"id": str(number)}
    return {"op": "D", "old": key, "old_kind": "K", "key_hash": signed_hash([str(number)])}


def row(number: int, status: str, note: str | None) -> dict[str, Any]:
    return {"id": str(number), "status": status, "note": note}


def truncation() -> dict[str, Any]:
    return {"op": "T", "new": {"cascade": False, "restart_identity": False}}


@pytest.fixture
def history(store_dsn: str, request: pytest.FixtureRequest) -> History:
    make_partitions()
    # Each test has a slot, and so a lake, of its own.
    return History(f"slot_{abs(hash(request.node.name))}")


@pytest.fixture
def feed(history: History, feed_of: MakeFeed) -> Feed:
    return feed_of(SimpleNamespace(slot=history.slot), "public.orders")


def rows(feed: Feed) -> dict[str, tuple[str | None, ...]]:
    """Status and note by id, as text; an unknown value is ``?``."""
    found = {}
    for each in feed.lake.frame(CURRENT).collect():
        known = dict.fromkeys(each["_unknown"], "?")
        values = [known.get(name, each[name]) for name in ("status", "note")]
        found[each["id"]] = (*values,)
    return found


@pytest.mark.parametrize("stepwise", [False, True])
def test_a_baseline_is_the_table_at_its_position(
    history: History, feed: Feed, stepwise: bool
) -> None:
    history.commit(update(1, "paid"))  # its note is unknown: the row is older than the record
    history.commit(insert(2))  # it goes unseen
    history.commit(insert(3))
    if stepwise:
        feed.run()
        assert rows(feed) == {"1": ("paid", "?"), "2": ("new", None), "3": ("new", None)}
    history.commit(delete(4), commit_lsn=LSN(4900))
    history.commit(update(3, "sent"))
    if stepwise:
        feed.run()
    # It is stored last, and was read before the deletion, which commits at its position.
    history.baseline(4900, row(1, "paid", "one"), row(3, "new", None), row(4, "gone", None))
    feed.run()
    assert rows(feed) == {"1": ("paid", "one"), "3": ("sent", None)}


def test_changes_that_a_baseline_has_are_not_merged_again(history: History, feed: Feed) -> None:
    history.commit(insert(1))
    history.baseline(50_000, row(1, "paid", "one"), row(2, "moved", "two"))
    feed.run()
    # These committed before the baseline was read, and are stored after it.
    moved = {"old": {"id": "1"}, "old_kind": "K", "old_key_hash": signed_hash(["1"])}
    history.commit(update(2, "moved") | moved)
    history.commit(insert(5))
    history.commit(update(2, "late"), commit_lsn=LSN(60_000))
    feed.run()
    assert rows(feed) == {"1": ("paid", "one"), "2": ("late", "two")}


def test_a_truncation_leaves_what_was_inserted_after_it(history: History, feed: Feed) -> None:
    history.commit(insert(1), insert(2))
    feed.run()
    history.commit(update(1, "paid"), truncation(), insert(2))
    history.commit(insert(3))
    feed.run()
    assert rows(feed) == {"2": ("new", None), "3": ("new", None)}


def test_a_baseline_of_an_older_version_forgets_nothing_of_the_newer_one(
    history: History, feed: Feed
) -> None:
    first = history.orders
    history.commit(insert(1))
    history.orders = history.table("orders", 16384, ["id", "status"], number=2)
    history.commit(update(1, "without"))
    feed.run()
    assert rows(feed) == {"1": ("without", None)}
    history.orders = history.table("orders", 16384, ["id", "status", "note"], number=3)
    history.commit(update(2, "new", note="two"))
    feed.run()
    # A column of that name was dropped and added.
    assert rows(feed) == {"1": ("without", "?"), "2": ("new", "two")}
    RelationVersion.objects.update(intervals=[{"lsn": "0/1"}])
    history.baseline(1000, row(3, "old", "three"), version=first)
    feed.run()
    assert rows(feed) == {"1": ("without", "?"), "2": ("new", "two"), "3": ("old", "?")}


def test_a_table_made_anew_has_no_row_of_the_former_one(
    history: History, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.commit(insert(1))
    with monkeypatch.context() as patch:
        patch.setattr(feeding, "catch_up", killed_after(1))
        with pytest.raises(KeyboardInterrupt):
            feed.run()
    RelationVersion.objects.update(intervals=[{"at": "2026-01-01"}])
    history.orders = history.table("orders", 16385, ["id", "status", "note"])
    RelationVersion.objects.filter(pk=history.orders.pk).update(intervals=[{"at": "2026-01-02"}])
    history.orders.relation.current_version = history.orders
    history.orders.relation.save()
    history.commit(insert(2))
    feed.run()
    assert rows(feed) == {"2": ("new", None)}


def test_infinite_keys_are_told_apart(history: History, feed: Feed) -> None:
    columns = [
        {"name": "id", "key": True, "type": "timestamp without time zone", "type_oid": 1114},
        *({"name": name, "key": False} for name in ("status", "note")),
    ]
    RelationVersion.objects.update(columns=columns)
    for key in ("infinity", "-infinity"):
        history.commit(insert(0) | {"new": {"id": key, "status": key, "note": None}})
    feed.run()
    history.commit(update(0, "paid") | {"new": {"id": "infinity", "status": "paid"}})
    feed.run()
    found = {each["_pg_raw"]["id"]: each["status"] for each in feed.lake.frame(CURRENT).collect()}
    assert found == {"infinity": "paid", "-infinity": "-infinity"}


def test_rows_with_a_masked_key_are_not_told_apart(history: History, feed: Feed) -> None:
    masked = {"id": {"$masked": True}, "status": "new", "note": None}
    history.commit({"op": "I", "new": masked}, {"op": "I", "new": masked})
    assert "masked" in feed.run().no_current
    assert rows(feed) == {}


def test_changes_without_a_key_are_missed_until_a_baseline(history: History, feed: Feed) -> None:
    history.commit(insert(1))
    keyless = history.table("orders", 16384, ["id", "status", "note"], number=2)
    RelationVersion.objects.filter(pk=keyless.pk).update(key_columns=[])
    history.commit(insert(2) | {"version": keyless, "key_hash": None})
    assert "while the table had no key" in feed.run().no_current
    history.commit(insert(3))
    assert "while the table had no key" in feed.run().no_current
    history.baseline(90_000, row(1, "new", None), row(2, "new", None), row(3, "new", None))
    assert feed.run().no_current == ""
    assert rows(feed) == {str(number): ("new", None) for number in (1, 2, 3)}


def test_a_deletion_under_the_former_key_of_its_transaction_is_missed(
    history: History, feed: Feed
) -> None:
    history.commit(insert(1))
    by_status = history.table("orders", 16384, ["id", "status", "note"], number=2)
    RelationVersion.objects.filter(pk=by_status.pk).update(key_columns=["status"])
    history.commit(delete(1), insert(2) | {"version": by_status})
    assert "the key was altered" in feed.run().no_current


def test_rows_whose_new_key_is_unknown_are_given_up_until_a_baseline(
    history: History, feed: Feed
) -> None:
    history.commit(insert(1))
    named = history.table("orders", 16384, ["id", "status", "note", "code"], number=2)
    RelationVersion.objects.filter(pk=named.pk).update(key_columns=["code"])
    history.commit(insert(2) | {"version": named, "new": {**row(2, "new", None), "code": "two"}})
    assert "the key was altered" in feed.run().no_current
    assert rows(feed) == {"2": ("new", None)}
    read = [{**row(number, "new", None), "code": f"{number}"} for number in (1, 2)]
    history.baseline(90_000, *read, version=named)
    assert feed.run().no_current == ""
    assert rows(feed).keys() == {"1", "2"}


def test_rows_inserted_under_nothing_have_the_key_of_before(history: History, feed: Feed) -> None:
    history.commit(insert(1))
    nothing = history.table("orders", 16384, ["id", "status", "note"], number=2)
    RelationVersion.objects.filter(pk=nothing.pk).update(key_columns=[], replica_identity="NOTHING")
    history.commit(insert(2) | {"version": nothing, "key_hash": None})
    history.commit(update(2, "paid"))
    assert feed.run().no_current == ""
    assert rows(feed) == {"1": ("new", None), "2": ("paid", None)}


def test_a_run_goes_on_when_a_column_is_added_meanwhile(
    history: History, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.commit(insert(1))
    run = Feed._run

    def altered(feed: Feed, *arguments: Any) -> None:
        if history.orders.number == 1:
            history.orders = history.table("orders", 16384, ["id", "status", "note", "x"], number=2)
            history.commit(insert(2) | {"new": {**row(2, "new", None), "x": "added"}})
        run(feed, *arguments)

    monkeypatch.setattr(Feed, "_run", altered)
    assert feed.run().batches == 2
    assert [each["x"] for each in feed.lake.frame(CURRENT).orderBy("id").collect()][1] == "added"


def test_a_run_names_what_was_left_out_or_is_missing_between_incarnations(
    history: History, feed: Feed
) -> None:
    history.commit(insert(1))
    history.incarnation.commit_seq += 1
    history.commit(insert(2), state="skipped", commit_seq=2)
    history.commit(insert(3))
    assert feed.run().gaps == [(1, 2, 2)]
    incarnation = history.new_incarnation()
    SlotEvent.objects.create(
        slot=history.slot, incarnation=incarnation, kind="gap", message="", at=WHEN
    )
    history.commit(insert(4))
    assert feed.run().gaps == [(2, 0, 0)]


@pytest.mark.parametrize("stepwise", [False, True])
def test_after_a_gap_rows_are_unknown_until_their_next_change_or_a_baseline(
    history: History, feed: Feed, stepwise: bool
) -> None:
    history.commit(*map(insert, (1, 2, 3, 4)))
    if stepwise:
        feed.run()
    history.incarnation.commit_seq += 1
    history.commit(insert(5), state="skipped", commit_seq=2)
    if stepwise:
        feed.run()
        assert rows(feed) == dict.fromkeys("1234", ("?", "?"))
    history.commit(update(1, "paid"), delete(2), insert(3), update(5, "sent"))
    assert "changes are missing" in feed.run().no_current
    assert rows(feed) == {
        "1": ("paid", "?"), "3": ("new", None), "4": ("?", "?"), "5": ("sent", "?"),
    }  # fmt: skip
    unsure = [each["id"] for each in feed.lake.frame(CURRENT).collect() if "id" in each["_unknown"]]
    assert unsure == ["4"]
    history.commit(update(3, "late"))
    assert "changes are missing" in feed.run().no_current
    # One that was read before the gap tells nothing.
    history.baseline(2000, row(1, "old", "one"), row(4, "old", None))
    assert "changes are missing" in feed.run().no_current
    assert rows(feed)["4"] == ("?", "?")
    history.baseline(90_000, row(1, "paid", "one"), row(3, "late", None))
    assert feed.run().no_current == ""
    assert rows(feed) == {"1": ("paid", "one"), "3": ("late", None)}


@pytest.mark.parametrize("killed_in", ["_forget_rows", "forget_statement"])
def test_a_run_that_is_killed_at_a_gaps_end_is_made_good(
    history: History, feed: Feed, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    """The changes up to the gap's end were merged, and the rows are not unknown yet."""
    history.commit(*map(insert, (1, 2)))
    history.incarnation.commit_seq += 1
    history.commit(insert(5), state="skipped", commit_seq=2)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(current, killed_in, killed)
        with pytest.raises(KeyboardInterrupt):
            feed.run()
    assert rows(feed) == dict.fromkeys("12", ("new", None))
    assert "changes are missing" in feed.run().no_current
    assert rows(feed) == dict.fromkeys("12", ("?", "?"))
    history.commit(update(1, "paid"))
    feed.run()
    assert rows(feed) == {"1": ("paid", "?"), "2": ("?", "?")}


def test_a_baseline_right_after_a_gap_counts_only_if_it_was_read_later(
    history: History, feed: Feed
) -> None:
    history.commit(*map(insert, (1, 2)))
    history.incarnation.commit_seq += 1
    history.commit(insert(5), state="skipped", commit_seq=2)
    history.baseline(2000, row(1, "old", None))
    assert "changes are missing" in feed.run().no_current
    assert rows(feed) == dict.fromkeys("12", ("?", "?"))
    history.baseline(90_000, row(1, "paid", "one"))
    assert feed.run().no_current == ""
    assert rows(feed) == {"1": ("paid", "one")}
