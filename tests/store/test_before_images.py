"""The row before a change is read from changes that the tests write by hand."""

import datetime as dt
import random

import pytest
from django.db import connection

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import (
    AbortedSubtransaction,
    Baseline,
    Change,
    PublicationLapse,
    Quarantine,
    Relation,
    Transaction,
)
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.days import IDS_PER_HOUR
from replview.store.read.row_history import events
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.before_images import before_columns, before_images
from replview.store.read.row_history.finding import RowFinder
from replview.store.read.row_history.history import row_history
from replview.store.read.row_history.keys import table_of
from replview.store.read.rows import signed_hash
from replview.store.write.partitions import ensure_partitions
from tests.support.history_rows import WHEN, History, insert

HASH = signed_hash(["42"])


@pytest.fixture
def shop(db) -> History:
    """A slot with a table of orders."""
    today = dt.datetime.now(tz=dt.UTC).date()
    ensure_partitions(connection.connection, today, today)
    return History()


def row(status: str, note: str | None = None) -> dict[str, str | None]:
    return {"id": "42", "status": status, "note": note}


def created(status: str = "new") -> dict:
    return insert(42, key_hash=HASH) | {"new": row(status)}


def update(new: dict, **more) -> dict:
    return {"op": "U", "new": new, "key_hash": HASH, **more}


def before(transaction_id: int, seq: int = 1) -> dict | None:
    found = before_images(reading_session(), changes_of(reading_session(), transaction_id)).get(
        (transaction_id, seq)
    )
    return None if found is None else found.image


def snapshot(shop: History, at_lsn: int, status: str, hours_ago: int = 0) -> int:
    """A baseline that read the row as of a position."""
    shop._made += 1
    identifier = Transaction.objects.order_by("-id").values_list("id", flat=True)[0] + 1
    identifier -= hours_ago * IDS_PER_HOUR
    shop.incarnation.commit_seq += 1
    shop.incarnation.save()
    Transaction.objects.create(
        id=identifier, incarnation=shop.incarnation, state="snapshot", received_at=WHEN, xid=None,
        commit_seq=shop.incarnation.commit_seq, commit_lsn=LSN(at_lsn), end_lsn=LSN(at_lsn),
        commit_time=WHEN, inserts=1, relations={str(shop.orders.relation_id): [1, 0, 0, 0]},
    )  # fmt: skip
    Change.objects.create(
        transaction_id=identifier, seq=1, lsn=LSN(at_lsn), op="S", new=row(status), key_hash=HASH,
        relation_id=shop.orders.relation_id, version_id=shop.orders.pk,
    )  # fmt: skip
    Baseline.objects.create(
        slot=shop.slot, incarnation=shop.incarnation, schema="public", table="orders", state="done",
        lsn=LSN(at_lsn), transaction_id=identifier, rows=1,
    )  # fmt: skip
    return identifier


def states(shop: History) -> list[str]:
    """The row's states as its history tells them, newest first."""
    found = row_history(reading_session(), shop.slot, shop.orders.relation_id, {"id": "42"})
    return [entry.after.values.get("status", entry.step.op) for entry in found.entries]


def test_a_snapshot_is_what_the_first_update_found(shop) -> None:
    shop.commit(insert(1))
    snapshot(shop, 1950, "pending")
    first = shop.commit(update(row("paid")))

    assert before(first) == row("pending")
    assert states(shop) == ["paid", "pending"]


def test_a_change_written_before_a_snapshot_and_committed_after_it_comes_after(shop) -> None:
    shop.commit(insert(1))
    # Its change is at 2001, its commit at 2900; the snapshot is as of 2500.
    paid = shop.commit(update(row("paid")))
    snapshot(shop, 2500, "pending")
    sent = shop.commit(update(row("sent")))

    assert before(sent) == row("paid")
    assert before(paid) == row("pending")
    assert states(shop) == ["sent", "paid", "pending"]


def test_a_change_committed_before_a_snapshot_comes_before(shop) -> None:
    shop.commit(created("draft"))
    shop.commit(update(row("paid")))
    snapshot(shop, 2950, "paid, with a trigger's touch")
    sent = shop.commit(update(row("sent")))

    assert before(sent) == row("paid, with a trigger's touch")


@pytest.fixture
def old_shop(shop: History) -> History:
    """Return the shop's history with partitions for sixty days."""
    today = dt.datetime.now(tz=dt.UTC).date()
    ensure_partitions(connection.connection, today - dt.timedelta(days=60), today)
    return shop


@pytest.mark.parametrize("hours_ago", [0, 5, 30, 20 * 24, 50 * 24])
def test_a_row_is_found_however_long_ago_it_was_changed(old_shop, hours_ago: int) -> None:
    old_shop.commit(created("first"), hours_ago=max(hours_ago, 40 * 24))
    old_shop.commit(update(row("then")), hours_ago=hours_ago)
    assert before(old_shop.commit(update(row("now")))) == row("then")


@pytest.mark.parametrize("was_open", [{"streamed": True}, {"gid": "two-phase"}])
def test_what_was_open_for_days_comes_where_it_committed(old_shop, was_open) -> None:
    old_shop.commit(created("first"), hours_ago=50 * 24)
    old_shop.commit(update(row("second")), hours_ago=3)
    old_shop.commit(update(row("third")), hours_ago=20 * 24, **was_open)
    last = old_shop.commit(update(row("now")))
    assert before(last) == row("third")
    # The next such change was first seen before the change that it follows.
    old_shop.commit(update(row("fifth")), hours_ago=2)
    assert before(old_shop.commit(update(row("late")), hours_ago=45 * 24, **was_open)) == row(
        "fifth"
    )


def test_a_snapshot_is_found_whose_identifier_is_of_another_time(old_shop) -> None:
    old_shop.commit(created("first"), hours_ago=30 * 24)
    old_shop.commit(update(row("before it")), hours_ago=10)
    snapshot(old_shop, 2950, "read", hours_ago=20 * 24)
    assert before(old_shop.commit(update(row("now")))) == row("read")


def test_identifiers_are_trusted_only_where_they_follow_commits(old_shop) -> None:
    # The store's clock was two months ahead, and set back.
    old_shop.incarnation.hours_in_order = False
    old_shop.commit(created("first"), hours_ago=1)
    old_shop.commit(update(row("then")), hours_ago=0)
    assert before(old_shop.commit(update(row("now")), hours_ago=50 * 24)) == row("then")


@pytest.mark.parametrize("at_once", range(2, 9))
def test_a_history_that_is_read_in_parts_goes_on_before_a_snapshot(
    shop, monkeypatch, at_once: int
) -> None:
    shop.commit(created())
    shop.commit(update(row("paid")))
    snapshot(shop, 2950, "paid")
    for number in range(5):
        shop.commit(update(row(f"sent {number}")))
    monkeypatch.setattr(events, "MOST_EVENTS", at_once)

    relation, found, cursor = shop.orders.relation_id, [], None
    while True:
        page = row_history(reading_session(), shop.slot, relation, {"id": "42"}, cursor=cursor)
        found += [entry.after.values["status"] for entry in page.entries]
        cursor = page.older
        if cursor is None:
            break
    assert found == [*(f"sent {number}" for number in reversed(range(5))), "paid", "paid", "new"]


def test_a_history_that_is_read_in_parts_goes_on_before_what_was_rolled_back(
    shop, monkeypatch
) -> None:
    shop.commit(created())
    shop.commit(update(row("paid")))
    shop.commit(*(update(row("undone")) for _ in range(7)), state="aborted")
    monkeypatch.setattr(events, "MOST_EVENTS", 5)

    assert states(shop) == ["paid", "new"]


def test_nothing_is_told_across_a_new_incarnation(shop) -> None:
    shop.commit(created())
    shop.new_incarnation()
    paid = shop.commit(update(row("paid")))
    entry = row_history(
        reading_session(), shop.slot, shop.orders.relation_id, {"id": "42"}
    ).entries[0]

    assert before(paid) is None
    assert (entry.before_kind, entry.before.why) == ("unknown", "gap")


def test_nothing_is_told_across_a_transaction_that_was_left_out(shop) -> None:
    shop.commit(created())
    skipped = shop.commit(state="skipped")
    xid = Transaction.objects.get(pk=skipped).xid
    Quarantine.objects.create(
        slot=shop.slot, incarnation=shop.incarnation, xid=xid, raw=b"", raw_bytes=0,
        cause="", remedy="",
        decision="skip",
    )  # fmt: skip
    paid = shop.commit(update(row("paid")))

    assert before(paid) is None


def test_nothing_is_told_across_a_truncation(shop) -> None:
    shop.commit(created())
    shop.commit({"op": "T", "new": {"cascade": False, "restart_identity": False}})
    paid = shop.commit(update(row("paid")))

    assert before(paid) is None


def test_nothing_is_told_where_updates_are_not_published(shop) -> None:
    shop.commit(created())
    deleted = shop.commit({"op": "D", "old": {"id": "42"}, "old_kind": "K", "key_hash": HASH})
    assert before(deleted) == row("new")
    PublicationLapse.objects.create(
        slot=shop.slot, relation_oid=Relation.objects.get().oid, schema="public", table="orders",
        kind="operations", operations="U", from_incarnation=0, from_lsn=LSN(0),
    )  # fmt: skip

    assert before(deleted) is None


def test_another_key_with_the_same_hash_is_not_the_row(shop) -> None:
    shop.commit(created())
    other = update({"id": "43", "status": "other", "note": None})
    shop.commit(other)
    paid = shop.commit(update(row("paid")))

    assert before(paid) == row("new")
    assert states(shop) == ["paid", "new"]


def test_columns_not_sent_are_looked_for_a_bounded_way_back(shop) -> None:
    shop.commit(created() | {"new": row("new", "a note")})
    for number in range(10):
        shop.commit(update({"id": "42", "status": str(number)}))
    near = shop.commit(update({"id": "42", "status": "near"}))
    for number in range(30):
        shop.commit(update({"id": "42", "status": str(number)}))
    far = shop.commit(update({"id": "42", "status": "far"}))

    assert before(near) == row("9", "a note")
    assert before(far) == {"id": "42", "status": "29"}


def test_a_page_of_changes_takes_a_few_queries(shop, django_assert_max_num_queries) -> None:
    shop.commit(*(insert(n, key_hash=signed_hash([str(n)])) for n in range(50)))
    changed = shop.commit(
        *(
            {"op": "U", "new": {"id": str(n), "status": "x", "note": None},
             "key_hash": signed_hash([str(n)])}
            for n in range(50)
        )
    )  # fmt: skip
    changes = changes_of(reading_session(), changed, 0, 50)

    with django_assert_max_num_queries(4):
        assert len(before_images(reading_session(), changes)) == 50


def test_the_row_before_the_record_begins_is_unknown(shop) -> None:
    shop.commit(update(row("paid")))
    early = shop.incarnation.started_at - dt.timedelta(days=1)
    state = row_as_of(
        reading_session(), shop.slot, shop.orders.relation_id, {"id": "42"}, moment=early
    )

    assert (state.exists, state.why) == (None, "before the record")


def test_a_whole_old_row_tells_what_was_before_it(shop) -> None:
    old = row("pending", "called")
    shop.commit(insert(43, key_hash=signed_hash(["43"])))
    shop.commit(update(row("paid"), old=old, old_kind="O"))
    asked = reading_session(), shop.slot, shop.orders.relation_id, {"id": "42"}
    state, early = (row_as_of(*asked, lsn=lsn) for lsn in (1950, 500))

    assert (state.exists, state.values) == (True, old)
    # Nobody knows which columns the table had before its first recorded change.
    assert (early.exists, early.values) == (True, {"id": "42"})
    assert early.unknown == {"status": "altered", "note": "altered"}


def test_many_rows_together_are_what_each_is_by_itself(shop, monkeypatch) -> None:
    rng = random.Random(18)
    hashes = [signed_hash([str(number)]) for number in range(4)]
    made = []
    for number in range(120):
        if number == 60:
            shop.new_incarnation()
        which = rng.randrange(4)
        new = {"id": str(which), "status": str(number)} | ({"note": "n"} if number % 7 == 0 else {})
        change = {"op": "U", "new": new, "key_hash": hashes[which]}
        if number % 10 == 3:
            other = (which + 1) % 4
            old = {"id": str(other)}
            change |= {"old": old, "old_kind": "K", "old_key_hash": hashes[other]}
        state = "aborted" if number % 9 == 4 else "committed"
        made.append(shop.commit(change, state=state))
    changes = [change for each in made for change in changes_of(reading_session(), each)]
    singly = before_images(reading_session(), changes)
    monkeypatch.setattr("replview.store.read.row_history.before_images.MANY", 1)

    assert len(singly) > 50
    assert before_images(reading_session(), changes) == singly
    # A row with too many changes is looked for by itself.
    monkeypatch.setattr("replview.store.read.row_history.row_past.PLACES_A_ROW", 0)
    monkeypatch.setattr("replview.store.read.row_history.row_past.PLACES_MORE", 3)
    assert before_images(reading_session(), changes) == singly


def test_only_what_is_asked_of_a_row_is_looked_for(shop, django_assert_num_queries) -> None:
    shop.commit(created() | {"new": row("new", "a note")})
    for number in range(10):
        shop.commit(update({"id": "42", "status": str(number)}))
    deleted = shop.commit({"op": "D", "old": {"id": "42"}, "old_kind": "K", "key_hash": HASH})
    changes, at = changes_of(reading_session(), deleted), (deleted, 1)

    found, partial = before_columns(reading_session(), changes, ["status"])
    assert (found[at].image["status"], partial) == ("9", {at})
    found, partial = before_columns(reading_session(), changes, ["note"])
    assert (found[at].image["note"], partial) == ("a note", set())
    # The server sent the key: nothing is looked for.
    with django_assert_num_queries(2):
        assert before_columns(reading_session(), changes, ["id"]) == ({}, {at})


def _hashes(*keys: int | None) -> dict:
    names = ("key_hash", "old_key_hash")
    return {n: signed_hash([str(k)]) for n, k in zip(names, keys, strict=False) if k}


def _play(shop: History, draw: random.Random) -> None:
    """Rows come to have two keys and lose them, mostly updated in between; some changes count not,
    and some are not recorded.
    """
    taken: set[int] = set()

    def new(key: int) -> dict:
        return {"id": str(key), "status": str(draw.random()), "note": None}

    for _ in range(60):
        key, other = draw.sample((41, 42), 2)
        act = draw.choices(
            ("insert", "delete", "move", "truncate", "aborted", "savepoint", "prepared", "baseline",
             "unseen", "gap", "update"), (8, 3, 3, 1, 3, 3, 2, 1, 1, 1, 40))[0]  # fmt: skip
        if act == "truncate":
            shop.commit({"op": "T"})
            taken.clear()
        elif act == "gap":
            shop.new_incarnation()
        elif key not in taken:
            if act != "unseen":
                shop.commit(insert(key))
            taken.add(key)
        elif act == "unseen":
            taken.discard(key)
        elif act == "delete":
            shop.commit({"op": "D", "old": {"id": str(key)}, "old_kind": "K", **_hashes(key)})
            taken.discard(key)
        elif act == "move" and other not in taken:
            shop.commit({"op": "U", "old": {"id": str(key)}, "old_kind": "K", "new": new(other),
                         **_hashes(other, key)})  # fmt: skip
            taken ^= {key, other}
        elif act in ("aborted", "prepared"):
            shop.commit({"op": "U", "new": new(key), **_hashes(key)}, state=act)
        elif act == "savepoint":
            changes = ({"op": "U", "new": new(key), **_hashes(key)} for _ in range(3))
            stored = shop.commit(*changes)
            Change.objects.filter(transaction_id=stored, seq=2).update(subxid=7)
            AbortedSubtransaction.objects.create(transaction_id=stored, subxid=7)
        elif act == "baseline" and key == 42:
            snapshot(shop, 1000 * shop._made + 950, "read")
        else:
            changes = ({"op": "U", "new": new(key), **_hashes(key)} for _ in range(3))
            shop.commit(*changes)


def _told(shop: History, key: int) -> tuple[list, int]:
    """All that is known of the rows that had a key; how much of it was not read at first."""
    table = table_of(reading_session(), shop.slot, shop.orders.relation_id)
    assert table is not None
    finder = RowFinder(reading_session(), shop.slot, table, table.hashes({"id": str(key)}))
    unread = sum(event.commit is None for period in finder.periods for event in period.events)
    return [
        (p.begun, p.ended, p.ended_at, p.until, finder.whole(finder.follow(p)),
         [(event.text, event.op, event.at, event.commit_time) for event in p.events])
        for p in finder.periods
    ], unread  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_what_the_index_alone_tells_of_many_changes_is_what_reading_all_tells(
    shop, monkeypatch, seed: int
) -> None:
    _play(shop, random.Random(seed))
    whole = [_told(shop, key)[0] for key in (41, 42)]
    monkeypatch.setattr(events, "AT_FIRST", 3)
    found = [_told(shop, key) for key in (41, 42)]

    assert [told for told, _ in found] == whole
    assert sum(unread for _, unread in found) > 10
