"""Sums of the record are exact, come block by block, and are never made twice."""

import datetime as dt
import random
import threading
import time
from collections import Counter, defaultdict

import pytest
from django.db import connection

from replview.store.models import (
    AbortedSubtransaction,
    ActivityMark,
    ActorActivity,
    Change,
    HistoryBlock,
    RelationActivity,
    Transaction,
)
from replview.store.retention import tidy
from replview.store.retention.tidy import make_partitions
from replview.store.sums import activity
from tests.support.history_rows import WHEN, History, insert

OPS = "IUDT"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Ten places a block, two blocks at once."""
    monkeypatch.setattr(activity, "BLOCK", 10)
    monkeypatch.setattr("replview.store.read.history_places.BLOCK", 10)
    monkeypatch.setattr(activity, "BLOCKS_TOGETHER", 2)


def soon() -> float:
    return time.monotonic() + 60


def random_history(seed: int, count: int) -> History:
    """Transactions on a table of one shape and on one of two; some took changes back."""
    make_partitions()
    dice = random.Random(seed)
    made = History()
    shapes = [
        made.orders,
        made.table("items", 2, ["id", "a"]),
        made.table("items", 2, ["id", "b"], number=2),
    ]
    for number in range(count):
        changes = [
            {"op": dice.choice("IUDTM"), "version": dice.choice(shapes), "new": {"id": "1"},
             "subxid": dice.choice([None, 1, 2])}
            for _ in range(dice.randrange(5))
        ]  # fmt: skip
        for change in changes:
            if change["op"] == "M":
                change.pop("version")
        at = WHEN + dt.timedelta(hours=number)
        identifier = made.commit(
            *changes,
            actor=dice.choice([None, "alice", "bob"]),
            actor_grade=dice.choice([None, "claimed"]),
            commit_time=at,
            stored_at=at,
            size_bytes=dice.randrange(999),
        )
        row = Transaction.objects.get(pk=identifier)
        stored = Change.objects.filter(transaction_id=identifier)
        row.relations, standing = {}, stored
        if dice.random() < 0.3:
            row.aborted_changes = stored.filter(subxid=1).count()
            AbortedSubtransaction.objects.create(transaction_id=identifier, subxid=1)
            standing = stored.exclude(subxid=1) | stored.filter(subxid=None)
        for op, relation in standing.exclude(op="M").values_list("op", "relation_id"):
            row.relations.setdefault(str(relation), [0] * 4)[OPS.index(op)] += 1
        for place, name in enumerate(("inserts", "updates", "deletes", "truncates")):
            setattr(row, name, sum(counts[place] for counts in row.relations.values()))
        if dice.random() < 0.1 and not row.aborted_changes:
            row.state, row.actor = "snapshot", None
            rows = stored.filter(relation_id=made.orders.relation_id).count()
            stored.exclude(relation_id=made.orders.relation_id).delete()
            stored.update(op="S")
            row.relations = {str(made.orders.relation_id): [rows, 0, 0, 0]} if rows else {}
            row.inserts, row.updates, row.deletes, row.truncates, row.messages = rows, 0, 0, 0, 0
        row.save()
    return made


def expected_sums(low: int, high: int) -> tuple[Counter, Counter]:
    """Counted a change at a time: of tables by block, of actors by day."""
    tables: Counter = Counter()
    actors: Counter = Counter()
    stones = set(AbortedSubtransaction.objects.values_list("transaction_id", "subxid"))
    for row in Transaction.objects.filter(commit_seq__range=(low, high)):
        block, day = row.commit_seq // 10, row.commit_time.date()
        who = (row.actor or "", (row.actor_grade or "") if row.actor else "", day)
        seen: dict[int, int] = defaultdict(int)
        if row.state != "snapshot":
            actors[*who, 0, "transactions"] += 1
            actors[*who, 0, "messages"] += row.messages
        for change in Change.objects.filter(transaction_id=row.pk).order_by("seq"):
            op = change.op.decode() if isinstance(change.op, bytes) else change.op
            if (row.pk, change.subxid) in stones or op == "M":
                continue
            relation, version = change.relation_id, change.version_id
            tables[relation, block, version, op] += 1
            if not seen[relation] and row.state != "snapshot":
                tables[relation, block, version, "transactions"] += 1
                actors[*who, relation, "transactions"] += 1
            seen[relation] += 1
            if row.state != "snapshot":
                actors[*who, 0, op] += 1
                actors[*who, relation, op] += 1
    return +tables, +actors


def stored_sums() -> tuple[Counter, Counter]:
    tables: Counter = Counter()
    actors: Counter = Counter()
    names = {"inserts": "I", "updates": "U", "deletes": "D", "truncates": "T", "snapshots": "S"}
    for row in RelationActivity.objects.all():
        for name in ("transactions", *names):
            key = (row.relation_id, row.block, row.version_id, names.get(name, name))
            tables[key] = getattr(row, name)
    for row in ActorActivity.objects.all():
        who = (row.actor, row.grade, row.day)
        for name in ("transactions", "messages", *list(names)[:4]):
            actors[*who, row.relation_id, names.get(name, name)] = getattr(row, name)
    return +tables, +actors


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(4))
def test_sums_are_what_counting_every_change_gives(seed: int) -> None:
    made = random_history(seed, 57)

    assert activity.roll(soon()) == 5

    # The places from 50 on may still get company.
    assert ActivityMark.objects.get().rolled_seq == 49
    assert stored_sums() == expected_sums(1, 49)
    for block in HistoryBlock.objects.order_by("block"):
        rows = Transaction.objects.filter(
            commit_seq__range=(block.block * 10, block.block * 10 + 9)
        )
        counted = rows.exclude(state="snapshot")
        assert block.transactions == len(rows) == sum(block.states.values())
        assert block.inserts == sum(row.inserts for row in counted)
        assert block.messages == sum(row.messages for row in counted)
        assert block.size_bytes == sum(row.size_bytes for row in rows)
        assert block.max_size_bytes == max(row.size_bytes for row in rows)
        assert (block.first_time, block.last_time) == (
            min(row.commit_time for row in rows), max(row.commit_time for row in rows),
        )  # fmt: skip
        assert block.first_lsn == min((row.commit_lsn for row in counted), default=None)
        assert block.states.get("snapshot", 0) == len(rows) - len(counted)
    for _ in range(6):
        made.commit(insert(1))
    assert activity.roll(soon()) == 1
    assert stored_sums() == expected_sums(1, 59)
    assert activity.roll(soon()) == 0


@pytest.mark.django_db
def test_one_goes_on_where_the_deadline_came() -> None:
    random_history(1, 45)

    assert activity.roll(time.monotonic() - 1) == 0
    assert activity.roll(soon()) == 4
    assert stored_sums() == expected_sums(1, 39)


@pytest.mark.django_db
def test_changes_that_are_gone_count_without_their_version() -> None:
    made = random_history(2, 20)
    Change.objects.all().delete()
    AbortedSubtransaction.objects.all().delete()
    Transaction.objects.update(aborted_changes=0)
    activity.roll(soon())

    inserted = sum(counts[0] for row in Transaction.objects.filter(commit_seq__lt=20)
               .exclude(state="snapshot") for counts in row.relations.values())  # fmt: skip
    assert sum(RelationActivity.objects.values_list("inserts", flat=True)) == inserted
    of_orders = RelationActivity.objects.filter(relation_id=made.orders.relation_id)
    assert set(of_orders.values_list("version_id", flat=True)) == {made.orders.pk}
    others = RelationActivity.objects.exclude(relation_id=made.orders.relation_id)
    assert set(others.values_list("version_id", flat=True)) == {0}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_two_workers_never_sum_up_a_block_twice() -> None:
    random_history(3, 100)

    def work() -> None:
        activity.roll(soon())
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    activity.roll(soon())

    assert stored_sums() == expected_sums(1, 99)


@pytest.mark.django_db
def test_the_sums_of_a_removed_slot_go_with_it_and_no_others() -> None:
    made = random_history(1, 30)
    other = History("other")
    for number in range(12):
        other.commit(insert(number))
    activity.roll(soon())
    made.slot.desired = "removing"
    made.slot.save()

    assert tidy.remove_slots(soon()) == 1

    for sums in (ActivityMark, HistoryBlock, RelationActivity, ActorActivity):
        assert set(sums.objects.values_list("incarnation_id", flat=True)) == {other.incarnation.pk}


@pytest.mark.django_db
def test_a_slot_that_is_being_removed_is_left_alone() -> None:
    made = random_history(1, 30)
    made.slot.desired = "removing"
    made.slot.save()

    assert activity.roll(soon()) == 0
    assert not ActivityMark.objects.exists()
