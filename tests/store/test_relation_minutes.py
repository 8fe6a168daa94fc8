"""What was committed by the minute is exact, whether it is summed up yet or not."""

import datetime as dt
import time

import pytest

from replview.store.models import MinuteMark, RelationMinute, Transaction
from replview.store.retention.tidy import make_partitions
from replview.store.sums import relation_minutes
from tests.store.history_rows import WHEN, History, insert

pytestmark = pytest.mark.django_db
MINUTE = WHEN.replace(second=0, microsecond=0)
HOUR = (MINUTE - dt.timedelta(hours=1), MINUTE + dt.timedelta(hours=1))


@pytest.fixture
def made() -> History:
    make_partitions()
    return History()


def commit(made: History, *relations: tuple[int, int], **values) -> None:
    """A transaction that inserted so many rows into these tables."""
    told = {str(relation): [changes, 0, 0, 0] for relation, changes in relations}
    total = sum(changes for _, changes in relations)
    made.commit(relations=told, inserts=total, **{"size_bytes": 100 * total, **values})


def tables(made: History) -> list[tuple[int, int, int, int]]:
    return [
        (row.relation_id, row.transactions, row.changes, row.size_bytes)
        for row in relation_minutes.read_relation_minutes([made.life.pk], *HOUR)
    ]


def roll() -> int:
    return relation_minutes.roll(time.monotonic() + 60)


def test_tables_and_sizes_are_the_same_before_and_after_they_are_summed_up(made) -> None:
    commit(made, (1, 3), (2, 1))
    commit(made, (1, 5))
    commit(made, (1, 1), commit_time=WHEN + dt.timedelta(minutes=2))
    made.commit(insert(1), state="snapshot")
    before = tables(made), relation_minutes.read_transaction_sizes([made.life.pk], *HOUR)
    assert before[0] == [(1, 2, 8, 800), (2, 1, 1, 100), (1, 1, 1, 100)]
    assert [(s.power, s.transactions) for s in before[1]] == [(2, 2), (0, 1)]

    assert roll() == 3
    assert roll() == 0
    assert RelationMinute.objects.count() == 3
    assert before == (
        tables(made), relation_minutes.read_transaction_sizes([made.life.pk], *HOUR)
    )  # fmt: skip


def test_it_goes_on_piece_by_piece(made, monkeypatch) -> None:
    monkeypatch.setattr(relation_minutes, "_TOGETHER", 2)
    for _ in range(5):
        commit(made, (1, 1))
    assert roll() == 5
    assert tables(made) == [(1, 5, 5, 500)]
    assert MinuteMark.objects.get().rolled_seq == 5
    commit(made, (1, 1))
    assert tables(made) == [(1, 6, 6, 600)]


def test_transactions_without_changes_have_a_size_of_their_own(made) -> None:
    commit(made)
    commit(made, (1, 8), size_bytes=0)
    commit(made, (1, 7))
    roll()
    found = relation_minutes.read_transaction_sizes([made.life.pk], *HOUR)
    assert [(s.power, s.transactions) for s in found] == [(-1, 1), (2, 1), (3, 1)]


def test_old_minutes_and_removed_lives_are_forgotten(made) -> None:
    commit(made, (1, 1))
    commit(made, (1, 1), commit_time=WHEN + dt.timedelta(days=31))
    roll()
    assert relation_minutes.forget_old(WHEN + dt.timedelta(days=30, hours=1)) == 2
    assert RelationMinute.objects.count() == 1
    relation_minutes.forget(made.life.pk)
    assert not RelationMinute.objects.exists()
    assert Transaction.objects.exists()
