"""Searching a slot's history by values: what is found, in which order, and how far back."""

import datetime as dt
import random

import pytest

from replview.access.visibility import reading_session
from replview.store.models import AbortedSubtransaction
from replview.store.read.changes.scan import ChangeScan
from replview.store.read.changes.scan_places import ScanPosition
from replview.store.read.changes.search import find_changes
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.row_history.before_images import before_images
from replview.store.read.rows import signed_hash
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.read.value_filter import ValueFilter, WhereProblem
from replview.store.retention.tidy import make_partitions
from replview.store.sums.activity import roll
from tests.support.history_rows import WHEN, History, insert

pytestmark = pytest.mark.django_db
ORDERS = ("public", "orders")


@pytest.fixture
def history() -> History:
    make_partitions()
    return History()


def search(
    history: History, where: str = "", *, table: tuple[str, str] | None = ORDERS,
    since: dt.datetime | None = None, until: dt.datetime | None = None,
    cursor: ScanPosition | None = None, limit: int = 50, budget_seconds: float = 1.0, **asked: str,
):  # fmt: skip
    tables = (".".join(table),) if table else ()
    times = {
        "since": since.isoformat() if since else "",
        "until": until.isoformat() if until else "",
    }
    wanted = WantedChanges(
        slot=history.slot,
        where=ValueFilter.parse(where),
        filter=TransactionFilter(slot=str(history.slot), tables=tables, **times, **asked),
    )
    return find_changes(
        reading_session(), wanted, cursor=cursor, limit=limit, budget_seconds=budget_seconds
    )


def ids(found) -> list[str]:
    return [(change.new or change.old)["id"] for _, change in found.rows]


def update(number: int, status: str, old: dict | None = None, **more) -> dict:
    kind = {"old": old, "old_kind": "O"} if old else {}
    return {"op": "U", "new": {"id": str(number), "status": status, "note": None}, **kind, **more}


def typed(history: History, type_name: str, *values: object) -> None:
    """A table ``typed`` with one column of this type, a row for each value."""
    shape = history.table("typed", 77, ["id", "v"])
    shape.columns[1] |= {"type": type_name, "type_oid": 25 if type_name == "text" else None}
    shape.save()
    rows = [
        {"op": "I", "new": {"id": str(n), "v": value}, "version": shape}
        for n, value in enumerate(values)
    ]
    history.commit(*rows)


def matches(history: History, where: str) -> list[str]:
    return sorted(ids(search(history, where, table=("public", "typed"))))


def test_newest_first_through_transactions_and_their_changes(history) -> None:
    history.commit(insert(1), insert(2))
    history.commit(insert(3))
    found = search(history)
    assert ids(found) == ["3", "2", "1"]
    assert (found.complete, found.older, found.unknown) == (True, None, 0)
    assert found.searched_back_to == WHEN


def test_a_value_of_a_deleted_row_is_that_before(history) -> None:
    history.commit(insert(1), {"op": "D", "old_kind": "O", "old": {"id": "2", "status": "paid"}})
    assert ids(search(history, "status = paid")) == ["2"]


@pytest.mark.parametrize(
    ("type_name", "where", "expected"),
    [
        ("numeric(12,2)", "v > 100", ["2", "3", "4"]),
        ("numeric(12,2)", "v = 9", ["0"]),
        ("numeric(12,2)", "v <= 9.00", ["0"]),
        ("integer", "v = 0100", []),
        ("text", "v > 100", ["0", "1", "2", "3", "4"]),
    ],
)
def test_numbers_compare_as_numbers(history, type_name, where, expected) -> None:
    typed(history, type_name, "9.00", "100.00", "100.01", "NaN", "Infinity", None)
    assert matches(history, where) == expected


def test_whole_numbers_equal_however_they_are_typed(history) -> None:
    typed(history, "bigint", "42", "-42", "420")
    assert matches(history, "v = 042") == ["0"]
    assert matches(history, "v != 42") == ["1", "2"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("v > 2026-11-20", ["1", "3"]),
        ("v >= 2026-11-20 07:57:11+00", ["1", "3"]),
        ("v = 2026-11-20 09:27:11+05:30", []),
        ("v = 2026-11-20 13:27:11+05:30", ["1"]),
        ("v < 2000-01-01", ["2", "4"]),
    ],
)
def test_times_compare_as_moments(history, where, expected) -> None:
    typed(history, "timestamp with time zone", "2026-11-20 00:00:00+00",
          "2026-11-20 08:57:11+01", "0044-03-15 00:00:00+00 BC", "infinity",
          "-infinity", None)  # fmt: skip
    assert matches(history, where) == expected


def test_a_date_that_is_none_fails_nothing(history) -> None:
    typed(history, "date", "2026-02-30", "2026-03-01", "rubbish", {"$masked": True})
    assert "1" in matches(history, "v > 2026-02-28")


@pytest.mark.parametrize(
    "type_name", ["numeric", "timestamp without time zone", "boolean", "uuid", "inet[]", ""]
)
@pytest.mark.parametrize("operator", ["=", "!=", "<", ">=", "~"])
def test_no_value_makes_it_fail(history, type_name, operator) -> None:
    rubbish = [
        "",
        "1e999999",
        "9" * 500,
        "--",
        "1;DROP",
        "%s",
        "2026-13-45",
        "0x1F",
        {"$masked": 1},
    ]
    typed(history, type_name, *rubbish)
    values = {"boolean": "true", "uuid": "6f1c5f0e9d0a4f0e8f0e1d2c3b4a5968", "inet[]": "{::1}"}
    value = values.get(type_name, "2026-01-01" if "time" in type_name else "5")
    matches(history, f"v {operator} {value}")


def test_of_a_type_that_only_its_source_knows_it_says_why(history) -> None:
    typed(history, "public.mood", "sad")
    with pytest.raises(WhereProblem, match=r"v has the type public\.mood, which only"):
        matches(history, "v = sad")
    assert matches(history, "v ~ sad") == ["0"]


def test_booleans_by_any_of_their_words(history) -> None:
    typed(history, "boolean", "t", "f", None)
    assert matches(history, "v = true") == ["0"]
    assert matches(history, "v = no") == ["1"]


def test_contains_takes_signs_as_they_are(history) -> None:
    typed(history, "text", "100% Sure", "100 pct", "a_b", "aXb")
    assert matches(history, "v ~ '0% s'") == ["0"]
    assert matches(history, "v ~ a_b") == ["2"]


def test_null_and_what_was_not_sent_are_two_things(history) -> None:
    typed(history, "text", None, "x", {"$masked": True})
    assert matches(history, "v is null") == ["0"]
    assert matches(history, "v is not null") == ["1"]
    assert search(history, "v is null", table=("public", "typed")).unknown == 1


def test_an_old_row_that_was_sent_tells_what_changed(history) -> None:
    was = {"id": "1", "status": "pending", "note": None}
    history.commit(update(1, "paid", was), update(2, "paid", {**was, "status": "paid"}), insert(3))
    assert ids(search(history, "status changed")) == ["1"]
    assert ids(search(history, "status: pending -> paid")) == ["1"]
    assert ids(search(history, "status: * -> paid")) == ["1"]
    assert ids(search(history, "status: pending -> *")) == ["1"]
    assert ids(search(history, "status: new -> *")) == []
    assert ids(search(history, "note: null -> *")) == []


def test_an_old_row_that_was_not_sent_is_derived_or_unknown(history) -> None:
    first = history.table("orders", 16384, ["id", "status", "note"], number=9)
    first.delete()
    from replview.store.read.rows import signed_hash

    def hashed(number: int) -> dict:
        return {"key_hash": signed_hash([str(number)])}

    history.commit(insert(1, **hashed(1)))
    history.commit(update(1, "paid", **hashed(1)))
    history.commit(update(2, "paid", **hashed(2)))

    found = search(history, "status: new -> paid")

    assert ids(found) == ["1"]
    assert found.unknown == 1
    assert search(history, "status: new -> sent").unknown == 0


def test_a_key_that_was_not_sent_did_not_change(history) -> None:
    history.commit(update(1, "x"), {"op": "U", "old_kind": "K", "old": {"id": "1"},
                                    "new": {"id": "2", "status": "x", "note": None}})  # fmt: skip
    found = search(history, "id changed")
    assert (ids(found), found.unknown) == (["2"], 0)


def test_a_toast_value_that_was_not_sent_is_that_before(history) -> None:
    from replview.store.read.rows import signed_hash

    key = {"key_hash": signed_hash(["1"])}
    history.commit({"op": "I", "new": {"id": "1", "status": "a", "note": "long"}, **key})
    history.commit({"op": "U", "new": {"id": "1", "status": "b"}, **key})
    assert [c.op for _, c in search(history, "note = long").rows] == ["U", "I"]
    assert search(history, "note changed").rows == []


def test_operations_actor_and_time_narrow(history) -> None:
    hour = dt.timedelta(hours=1)
    history.commit(insert(1), actor="alice", commit_time=WHEN - hour)
    history.commit(insert(2), update(3, "x"), actor="bob")
    assert ids(search(history, ops="I")) == ["2", "1"]
    assert ids(search(history, actor="alice")) == ["1"]
    assert ids(search(history, since=WHEN - hour / 2)) == ["3", "2"]
    assert ids(search(history, until=WHEN - hour / 2)) == ["1"]


def test_a_table_by_a_name_it_had(history) -> None:
    history.commit(insert(1))
    history.orders.relation.table = "bestellungen"
    history.orders.relation.save()
    assert ids(search(history)) == ["1"]
    assert ids(search(history, table=("public", "bestellungen"))) == ["1"]
    assert search(history, table=("public", "none")).rows == []


def test_all_tables_that_have_the_column(history) -> None:
    typed(history, "text", "x")
    history.commit(insert(9))
    assert ids(search(history, "status = new", table=None)) == ["9"]


def test_shapes_compare_each_by_their_own_type(history) -> None:
    old = history.table("typed", 77, ["id", "v"])
    old.columns[1] |= {"type": "text", "type_oid": 25}
    old.save()
    history.commit({"op": "I", "new": {"id": "1", "v": "9"}, "version": old})
    new = history.table("typed", 77, ["id", "v"], number=2)
    new.columns[1]["type"] = "integer"
    new.save()
    history.commit({"op": "I", "new": {"id": "2", "v": "9"}, "version": new},
                   {"op": "I", "new": {"id": "3", "v": "100"}, "version": new})  # fmt: skip
    assert matches(history, "v > 10") == ["1", "3"]


@pytest.mark.parametrize(
    ("where", "cause"),
    [
        ("statuz = x", "no column statuz; there are id, status, note"),
        ("n > abc", "n is of type integer, and abc is no value of it"),
    ],
)
def test_what_cannot_be_asked_is_said(history, where, cause) -> None:
    history.orders.columns.append({"name": "n", "type": "integer"})
    if where.startswith("n "):
        history.orders.save()
    with pytest.raises(WhereProblem, match=cause):
        search(history, where)


def test_aborted_subtransactions_are_not_found(history) -> None:
    identifier = history.commit(insert(1, subxid=8), insert(2, subxid=9))
    AbortedSubtransaction.objects.create(transaction_id=identifier, subxid=9)
    assert ids(search(history)) == ["1"]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("rolled", [False, True])
def test_pages_hold_every_change_once(history, monkeypatch, limit, rolled) -> None:
    monkeypatch.setattr("replview.store.read.changes.scan_places.BLOCK", 1000)
    for size in (1, 3, 2):
        history.commit(*[insert(10 * size + n) for n in range(size)])
    history.incarnation.commit_seq += 1000
    history.incarnation.save()
    history.commit(insert(7))
    history.new_incarnation()
    history.commit(*[insert(100 + n) for n in range(4)])
    if rolled:
        roll(1e18)
    whole = ids(search(history))
    assert whole == ["103", "102", "101", "100", "7", "21", "20", "32", "31", "30", "10"]

    seen, cursor = [], None
    while True:
        found = search(history, cursor=cursor, limit=limit)
        seen += ids(found)
        cursor = found.older
        if cursor is None:
            break
    assert seen == whole


@pytest.mark.parametrize("where", ["", "status = new"])
def test_out_of_time_it_says_how_far_and_goes_on_from_there(history, monkeypatch, where) -> None:
    for number in range(6):
        history.commit(insert(number), insert(number + 10))
    monkeypatch.setattr("replview.store.read.changes.search.FIRST_READ", 3)
    monkeypatch.setattr("replview.store.read.changes.search.MOST_READ", 3)
    seen, cursor, steps = [], None, 0
    while True:
        found = search(history, where, cursor=cursor, budget_seconds=0)
        seen += ids(found)
        steps += 1
        assert found.searched_back_to is not None or found.complete
        cursor = found.older
        if found.complete:
            break
        assert steps < 30
    assert seen == [str(n + add) for n in reversed(range(6)) for add in (10, 0)]
    assert steps > 1


def test_a_large_transaction_is_read_in_windows(history, monkeypatch) -> None:
    monkeypatch.setattr("replview.store.read.changes.search.FIRST_READ", 4)
    monkeypatch.setattr("replview.store.read.changes.search.MOST_READ", 4)
    history.commit(*[insert(n) for n in range(20)])
    seen, cursor = [], None
    while True:
        found = search(history, "status = new", cursor=cursor, limit=3, budget_seconds=0)
        seen += ids(found)
        cursor = found.older
        if cursor is None:
            break
    assert seen == [str(n) for n in reversed(range(20))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("where", ["status changed", "status: new -> paid", "status != paid"])
def test_a_page_finds_what_a_walk_that_asks_for_every_before_image_finds(
    history, monkeypatch, seed, where
) -> None:
    monkeypatch.setattr("replview.store.read.changes.batches.UNSURE_AT_FIRST", 2)
    # Looked for row by row, or all rows together.
    monkeypatch.setattr(
        "replview.store.read.row_history.before_images.MANY", 1 if seed % 2 else 1000
    )
    rng = random.Random(seed)
    for _ in range(30):
        history.commit(*(_any_change(rng) for _ in range(rng.randint(1, 5))))
    wanted = WantedChanges.from_words(
        history.slot, {"table": "public.orders", "where": where, "slot": str(history.slot)}
    )
    whole = [
        (change.transaction_id, change.seq)
        for batch in ChangeScan(reading_session(), wanted, forwards=False).batches()
        for _, change in batch.found
    ]
    assert whole

    seen, cursor = [], None
    while True:
        found = search(history, where, cursor=cursor, limit=2)
        seen += [(change.transaction_id, change.seq) for _, change in found.rows]
        exact = before_images(reading_session(), [change for _, change in found.rows])
        shown = {(change.transaction_id, change.seq) for _, change in found.rows}
        for at in shown & found.before.keys():
            assert found.before[at] == exact.get(at)
        cursor = found.older
        if cursor is None:
            break
    assert seen == whole


def _any_change(rng: random.Random) -> dict:
    number, status = rng.randrange(3), rng.choice(["new", "paid", None])
    key_hash = signed_hash([str(number)])
    if rng.random() < 0.2:
        return insert(number, key_hash=key_hash)
    if rng.random() < 0.2:
        return {"op": "D", "old": {"id": str(number)}, "old_kind": "K", "key_hash": key_hash}
    change = update(number, status, key_hash=key_hash)
    if rng.random() < 0.3:
        del change["new"]["status"]
    return change
