"""Sums by the minute equal the commits that they sum up."""

import datetime as dt
import time

import pytest

from replview.store.models import MinuteMark, RelationMinute, Transaction, TransactionSizeMinute
from replview.store.retention.tidy import make_partitions
from replview.store.sums import relation_minutes
from tests.support.history_rows import WHEN, History, insert

pytestmark = pytest.mark.django_db


@pytest.fixture
def made() -> History:
    make_partitions()
    return History()


def commit(made: History, *relations: tuple[int, int], **values) -> None:
    """A transaction that inserted so many rows into these tables."""
    counts = {str(relation): [changes, 0, 0, 0] for relation, changes in relations}
    total = sum(changes for _, changes in relations)
    made.commit(relations=counts, inserts=total, **{"size_bytes": 100 * total, **values})


def tables() -> list[tuple[int, int, int, int]]:
    found = RelationMinute.objects.order_by("minute", "relation_id")
    return list(found.values_list("relation_id", "transactions", "changes", "size_bytes"))


def sizes() -> list[tuple[int, int]]:
    found = TransactionSizeMinute.objects.order_by("minute", "power")
    return list(found.values_list("power", "transactions"))


def roll() -> int:
    return relation_minutes.roll(time.monotonic() + 60)


def test_tables_and_sizes_are_summed_up_once(made) -> None:
    commit(made, (1, 3), (2, 1))
    commit(made, (1, 5))
    commit(made, (1, 1), commit_time=WHEN + dt.timedelta(minutes=2))
    made.commit(insert(1), state="snapshot")

    # The baseline has a place in history, but does not count.
    assert roll() == 4
    assert roll() == 0
    assert tables() == [(1, 2, 8, 800), (2, 1, 1, 100), (1, 1, 1, 100)]
    assert sizes() == [(2, 2), (0, 1)]


def test_it_goes_on_piece_by_piece(made, monkeypatch) -> None:
    monkeypatch.setattr(relation_minutes, "TRANSACTIONS_TOGETHER", 2)
    for _ in range(5):
        commit(made, (1, 1))
    assert roll() == 5
    assert tables() == [(1, 5, 5, 500)]
    assert MinuteMark.objects.get().rolled_seq == 5
    commit(made, (1, 1))
    assert roll() == 1
    assert tables() == [(1, 6, 6, 600)]


def test_transactions_without_changes_have_a_size_of_their_own(made) -> None:
    commit(made)
    commit(made, (1, 8), size_bytes=0)
    commit(made, (1, 7))
    roll()
    assert sizes() == [(-1, 1), (2, 1), (3, 1)]


def test_old_minutes_and_removed_incarnations_are_forgotten(made) -> None:
    commit(made, (1, 1))
    commit(made, (1, 1), commit_time=WHEN + dt.timedelta(days=31))
    roll()
    assert relation_minutes.forget_old(WHEN + dt.timedelta(days=30, hours=1)) == 2
    assert RelationMinute.objects.count() == 1
    relation_minutes.forget(made.incarnation.pk)
    assert not RelationMinute.objects.exists()
    assert Transaction.objects.exists()
