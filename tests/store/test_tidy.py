"""Tidying deletes what is no longer needed, a piece at a time, and nothing else."""

import datetime as dt
import time

import pytest

from replview.store.models import (
    AbortedSubtransaction,
    Change,
    LargeValue,
    Slot,
    SlotIncarnation,
    Source,
    Transaction,
)
from replview.store.read.days import transaction_id
from replview.store.retention import tidy

pytestmark = pytest.mark.django_db
SOON = 60.0


@pytest.fixture
def incarnation():
    """A slot's first incarnation."""
    tidy.make_partitions()
    slot = Slot.objects.create(source=Source.objects.create(name="s", conninfo=""), name="slot")
    return SlotIncarnation.objects.create(
        slot=slot, number=1, system_identifier="1", timeline=1, reason="created"
    )


def stored(incarnation, number: int, subxids: list[int], state="committed") -> int:
    """A transaction whose changes belong to these subtransactions, in this order."""
    identifier = transaction_id(number)
    Transaction.objects.create(
        id=identifier,
        incarnation=incarnation,
        state=state,
        commit_seq=number if state == "committed" else None,
        inserts=len(subxids),
        received_at=dt.datetime.now(dt.UTC),
    )
    Change.objects.bulk_create(
        Change(transaction_id=identifier, seq=seq, lsn="0/1", subxid=subxid, op="I", new={})
        for seq, subxid in enumerate(subxids, start=1)
    )
    return identifier


def subxids_of(identifier: int) -> list[int]:
    rows = Change.objects.filter(transaction_id=identifier).order_by("seq")
    return list(rows.values_list("subxid", flat=True))


def test_partitions_are_made_once() -> None:
    tidy.make_partitions()
    assert tidy.make_partitions() == []


def test_changes_of_aborted_subtransactions_go_once_the_transaction_ended(
    incarnation, monkeypatch
) -> None:
    monkeypatch.setattr(tidy, "WINDOW", 2)
    ended = stored(incarnation, 1, [7, 8, 7, 9, 8])
    open_one = stored(incarnation, 2, [8], state="streaming")
    LargeValue.objects.create(
        transaction_id=ended, seq=2, side="new", column="c", piece=0, content="x"
    )
    for identifier in (ended, open_one):
        AbortedSubtransaction.objects.create(transaction_id=identifier, subxid=8)

    assert tidy.sweep_tombstones(time.monotonic() + SOON) == 2

    assert subxids_of(ended) == [7, 7, 9]
    assert subxids_of(open_one) == [8]
    assert not LargeValue.objects.exists()
    assert AbortedSubtransaction.objects.get(transaction_id=ended).swept
    assert not AbortedSubtransaction.objects.get(transaction_id=open_one).swept


def test_a_slot_may_keep_what_was_aborted(incarnation) -> None:
    Slot.objects.update(keep_aborted=True)
    kept = stored(incarnation, 1, [8])
    AbortedSubtransaction.objects.create(transaction_id=kept, subxid=8)

    tidy.sweep_tombstones(time.monotonic() + SOON)

    assert subxids_of(kept) == [8]


def test_discarded_transactions_go_whole(incarnation, monkeypatch) -> None:
    monkeypatch.setattr(tidy, "WINDOW", 3)
    stored(incarnation, 1, [1] * 10, state="discarded")
    stored(incarnation, 2, [1] * 2, state="discarded")
    stored(incarnation, 3, [1] * 2, state="discarded")
    kept = stored(incarnation, 4, [1])

    assert tidy.sweep_discarded(time.monotonic() + SOON) == 3

    assert list(Transaction.objects.values_list("pk", flat=True)) == [kept]
    assert Change.objects.count() == 1


def test_a_removed_slot_goes_with_all_that_was_stored_of_it(incarnation) -> None:
    for number in range(1, 4):
        stored(incarnation, number, [1, 2])
    stored(incarnation, 9, [1], state="prepared")
    Slot.objects.update(desired="removing", transactions_stored=3)

    assert tidy.remove_slots(time.monotonic() + SOON) == 1

    assert not Slot.objects.exists()
    assert not Change.objects.exists()
    assert not Transaction.objects.exists()
    assert Source.objects.exists()


def test_removal_goes_on_where_it_ended(incarnation) -> None:
    stored(incarnation, 1, [1])
    Slot.objects.update(desired="removing")

    assert tidy.remove_slots(time.monotonic() - 1) == 0
    assert Change.objects.exists()
    assert tidy.remove_slots(time.monotonic() + SOON) == 1


def test_a_slot_is_not_removed_under_its_receiver(incarnation) -> None:
    Slot.objects.update(
        desired="removing", lease_owner="worker", heartbeat_at=dt.datetime.now(dt.UTC)
    )
    assert tidy.remove_slots(time.monotonic() + SOON) == 0


def test_a_killed_watch_is_forgotten(incarnation) -> None:
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=5)
    Source.objects.update(ephemeral=True)
    Slot.objects.update(created_at=long_ago, heartbeat_at=long_ago, lease_owner="watch")

    assert tidy.forget_ended_watches() == 1
    tidy.remove_slots(time.monotonic() + SOON)

    assert not Source.objects.exists()
