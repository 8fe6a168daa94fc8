"""One transaction's changes by filter and place, and its neighbours in history."""

import datetime as dt
from typing import Any

import pytest
from django.db import connection

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import (
    AbortedSubtransaction,
    ActivityMark,
    Change,
    RelationActivity,
    RelationVersion,
    Transaction,
)
from replview.store.read.changes.of_transaction import (
    CUT_CHARACTERS,
    ChangeFilter,
    ChangePage,
    first_changes_whole,
    one_change,
    read_changes_page,
)
from replview.store.read.transactions.neighbours import neighbours_of
from replview.store.write.partitions import ensure_partitions
from tests.support.history_rows import History, insert


@pytest.fixture
def history(db) -> History:
    connection.ensure_connection()
    today = dt.datetime.now(dt.UTC).date()
    ensure_partitions(connection.connection, today - dt.timedelta(days=1), today)
    return History()


def many(history: History, number: int, **more: Any) -> int:
    """A transaction of so many inserts."""
    made = history.commit(insert(1))
    rows = [
        Change(transaction_id=made, seq=seq, lsn=LSN(10_000 + seq), op="I",
               relation_id=history.orders.relation_id, version_id=history.orders.pk,
               new={"id": str(seq), "status": f"s{seq}"}, **more)
        for seq in range(2, number + 1)
    ]  # fmt: skip
    Change.objects.bulk_create(rows)
    return made


def seqs(page: ChangePage) -> list[int]:
    return [row.seq for row in page.rows]


def test_pages_follow_each_other_both_ways(history: History) -> None:
    made = many(history, 25)
    wanted = ChangeFilter()
    first = read_changes_page(reading_session(), made, wanted, limit=10)
    second = read_changes_page(reading_session(), made, wanted, after=10, limit=10)
    last = read_changes_page(reading_session(), made, wanted, before=10**6, limit=10)

    assert (seqs(first), first.more) == (list(range(1, 11)), True)
    assert seqs(second) == list(range(11, 21))
    assert (seqs(last), last.more) == (list(range(16, 26)), True)
    assert seqs(read_changes_page(reading_session(), made, wanted, before=16, limit=10)) == list(
        range(6, 16)
    )
    assert read_changes_page(reading_session(), made, wanted, before=6, limit=10) == ChangePage(
        first.rows[:5], False
    )
    assert read_changes_page(reading_session(), made, wanted, after=25, limit=10) == ChangePage(
        [], False
    )


def test_table_operation_and_text_narrow_it(history: History) -> None:
    other = history.table("other", 2, ["id"])
    made = history.commit(
        insert(1), insert(2, version=other), {"op": "U", "new": {"id": "1", "status": "50%_x"}},
        {"op": "D", "old": {"id": "1"}}, {"op": "M", "new": {"prefix": "p", "content": "Hello"}},
    )  # fmt: skip

    def found(**wanted: Any) -> list[int]:
        return seqs(read_changes_page(reading_session(), made, ChangeFilter(**wanted)))

    assert found(relation_id=other.relation_id) == [2]
    assert found(ops="UD") == [3, 4]
    assert found(text="0%_X") == [3]
    assert found(text="%") == [3]
    assert found(text="hello") == [5]
    assert found(relation_id=history.orders.relation_id, ops="I") == [1]


def test_a_search_that_runs_out_of_time_goes_on_where_it_ended(history: History) -> None:
    made = many(history, 5_000)
    wanted = ChangeFilter(text="s4999")
    page = read_changes_page(reading_session(), made, wanted, budget_seconds=0)
    assert page.searched_to is not None
    assert not page.rows
    looked = 0
    while page.searched_to is not None:
        assert page.searched_to > looked
        looked = page.searched_to
        page = read_changes_page(reading_session(), made, wanted, after=looked, budget_seconds=0)
        if page.rows:
            break

    assert seqs(page) == [4_999]
    assert seqs(read_changes_page(reading_session(), made, wanted, before=5_001)) == [4_999]


def test_what_was_rolled_back_is_hidden_unless_asked_for(history: History) -> None:
    made = history.commit(insert(1), insert(2, subxid=9), insert(3))
    AbortedSubtransaction.objects.create(transaction_id=made, subxid=9)

    assert seqs(read_changes_page(reading_session(), made, ChangeFilter())) == [1, 3]
    shown = read_changes_page(reading_session(), made, ChangeFilter(with_aborted=True)).rows
    assert [row.aborted for row in shown] == [False, True, False]
    whole = first_changes_whole(reading_session(), made, 10)
    assert whole is not None
    assert [row.seq for row in whole] == [1, 3]


def test_a_long_value_is_cut_on_a_page_and_whole_alone(history: History) -> None:
    text = " ".join(f"ü{n}" for n in range(CUT_CHARACTERS // 4))
    made = history.commit(insert(1, new={"id": "1", "status": None, "note": text}))
    [row] = read_changes_page(reading_session(), made, ChangeFilter()).rows
    whole = one_change(reading_session(), made, 1)

    assert row.new is not None
    assert row.new["note"]["$cut"] == len(text)
    assert row.new["status"] is None
    assert whole is not None
    assert whole.new == {"id": "1", "status": None, "note": text}
    assert one_change(reading_session(), made, 2) is None


def neighbour_ids(history: History, made: int, version: RelationVersion) -> tuple[Any, Any]:
    row = Transaction.objects.get(pk=made)
    assert row.commit_seq is not None
    found = neighbours_of(
        reading_session(), history.incarnation.pk, row.commit_seq, version.relation_id
    )
    return (found.previous and found.previous.id, found.next and found.next.id)


def test_neighbours_touched_the_same_table(history: History) -> None:
    other = history.table("other", 2, ["id"])
    first, _, middle, _, last = (
        history.commit(insert(n, **({"version": other} if n % 2 else {}))) for n in range(5)
    )

    assert neighbour_ids(history, middle, history.orders) == (first, last)
    assert neighbour_ids(history, first, history.orders) == (None, middle)
    assert neighbour_ids(history, last, history.orders) == (middle, None)


def test_neighbours_far_away_are_found_through_the_sums(history: History) -> None:
    other = history.table("other", 2, ["id"])
    made = {}
    for seq in (5, 2_500, 2_600, 7_001, 9_400, 9_500):
        history.incarnation.commit_seq = seq - 1
        version = other if seq in (2_600, 9_400) else history.orders
        made[seq] = history.commit(insert(seq, version=version))
    ActivityMark.objects.create(incarnation_id=history.incarnation.pk, rolled_seq=8_999)
    for seq, version in ((5, history.orders), (2_500, history.orders), (2_600, other),
                         (7_001, history.orders)):  # fmt: skip
        RelationActivity.objects.create(
            relation_id=version.relation_id, incarnation_id=history.incarnation.pk,
            block=seq // 1000,
            version_id=version.pk, transactions=1,
        )  # fmt: skip

    assert neighbour_ids(history, made[2_500], history.orders) == (made[5], made[7_001])
    assert neighbour_ids(history, made[7_001], history.orders) == (made[2_500], made[9_500])
    assert neighbour_ids(history, made[9_500], history.orders) == (made[7_001], None)
    assert neighbour_ids(history, made[9_400], other) == (made[2_600], None)
    assert neighbour_ids(history, made[2_600], other) == (None, made[9_400])


def test_a_neighbour_beyond_the_bound_is_unknown(history: History) -> None:
    first = history.commit(insert(1))
    history.incarnation.commit_seq = 50_000
    last = history.commit(insert(2))
    row, end = (Transaction.objects.get(pk=made) for made in (first, last))
    assert row.commit_seq is not None
    assert end.commit_seq is not None
    relation = history.orders.relation_id

    assert neighbours_of(
        reading_session(), history.incarnation.pk, row.commit_seq, relation
    ).next_unknown
    assert neighbours_of(
        reading_session(), history.incarnation.pk, end.commit_seq, relation
    ).previous_unknown
