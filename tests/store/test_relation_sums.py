"""Counts, last changes and rates of tables, from the sums and from what follows them."""

import datetime as dt

import pytest

from replview.store.models import ActivityMark, HistoryBlock, RelationActivity, Transaction
from replview.store.sums.relation_sums import last_changes, rates_of, sums_of_slot
from tests.support.history_rows import WHEN, History

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def history(db) -> History:
    """A slot with ``public.orders``, no change yet."""
    return History()


def rolled(history: History, block: int, first: dt.datetime, last: dt.datetime, **counts) -> None:
    """A block of the present incarnation in the sums."""
    HistoryBlock.objects.create(
        incarnation_id=history.incarnation.pk, block=block, first_time=first, last_time=last
    )
    RelationActivity.objects.create(
        relation_id=history.orders.relation_id, incarnation_id=history.incarnation.pk, block=block,
        version_id=history.orders.pk, **counts,
    )  # fmt: skip
    ActivityMark.objects.update_or_create(
        incarnation_id=history.incarnation.pk, defaults={"rolled_seq": block * 1000 + 999}
    )
    history.incarnation.commit_seq = max(history.incarnation.commit_seq, block * 1000 + 999)
    history.incarnation.save()


def test_sums_and_what_follows_them_together(history: History) -> None:
    rolled(history, 0, WHEN, WHEN, transactions=10, inserts=100, updates=20)
    history.commit(relations={str(history.orders.relation_id): [1, 2, 3, 0]})
    found = sums_of_slot(history.slot.pk).by_relation[history.orders.relation_id]

    assert (found.inserts, found.updates, found.deletes, found.transactions) == (101, 22, 3, 11)
    assert found.changes == 126


def test_a_baseline_is_no_change(history: History) -> None:
    history.commit(relations={str(history.orders.relation_id): [5000, 0, 0, 0]})
    Transaction.objects.update(state="snapshot")
    found = sums_of_slot(history.slot.pk).by_relation[history.orders.relation_id]

    assert (found.snapshots, found.changes, found.last) == (5000, 0, None)


def test_what_is_open_or_aborted_is_not_counted(history: History) -> None:
    relations = {str(history.orders.relation_id): [1, 0, 0, 0]}
    history.commit(state="aborted", relations=relations)
    history.commit(state="streaming", relations=relations)

    assert sums_of_slot(history.slot.pk).by_relation == {}


def test_the_last_change_is_of_the_latest_incarnation(history: History) -> None:
    relation = history.orders.relation_id
    for _ in range(3):
        history.commit(relations={str(relation): [1, 0, 0, 0]})
    history.new_incarnation()
    last = history.commit(relations={str(relation): [1, 0, 0, 0]}, xid=999)
    place = sums_of_slot(history.slot.pk).by_relation[relation].last

    assert place is not None
    found = last_changes({relation: place})[relation]
    assert (found.transaction_id, found.xid, found.commit_seq) == (last, 999, 1)


def test_a_last_change_in_a_block_is_looked_up_there(history: History) -> None:
    relation = history.orders.relation_id
    history.commit(relations={str(relation): [1, 0, 0, 0]})
    wanted = history.commit(relations={str(relation): [0, 1, 0, 0]})
    history.commit(relations={"77": [1, 0, 0, 0]})
    rolled(history, 0, WHEN, WHEN, transactions=2, inserts=1, updates=1)
    place = sums_of_slot(history.slot.pk).by_relation[relation].last

    assert place is not None
    assert (place.first_seq, place.last_seq) == (0, 999)
    assert last_changes({relation: place})[relation].transaction_id == wanted


def test_a_blocks_changes_are_spread_over_its_time(history: History) -> None:
    rolled(history, 0, WHEN + HOUR, WHEN + 3 * HOUR, inserts=200)
    relation = history.orders.relation_id
    rates = rates_of(history.slot.pk, [relation], since=WHEN, until=WHEN + 4 * HOUR, buckets=4)

    assert rates.by_relation[relation] == pytest.approx([0, 100, 100, 0])


def test_only_the_part_within_the_time_counts(history: History) -> None:
    rolled(history, 0, WHEN - HOUR, WHEN + HOUR, inserts=200)
    relation = history.orders.relation_id
    rates = rates_of(history.slot.pk, [relation], since=WHEN, until=WHEN + 2 * HOUR, buckets=2)

    assert rates.by_relation[relation] == pytest.approx([100, 0])


def test_what_is_not_summed_up_is_drawn_at_its_commit(history: History) -> None:
    relation = history.orders.relation_id
    history.commit(relations={str(relation): [7, 0, 0, 0]}, commit_time=WHEN + HOUR * 1.5)
    rates = rates_of(history.slot.pk, [relation], since=WHEN, until=WHEN + 2 * HOUR, buckets=2)

    assert rates.by_relation[relation] == [0, 7]
    assert rates.known_from is not None


def test_transactions_that_nothing_counts_are_told(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replview.store.sums.relation_sums.TAIL", 2)
    for _ in range(5):
        history.commit(relations={str(history.orders.relation_id): [1, 0, 0, 0]})
    sums = sums_of_slot(history.slot.pk)

    assert sums.not_counted == 3
    assert sums.by_relation[history.orders.relation_id].inserts == 2
