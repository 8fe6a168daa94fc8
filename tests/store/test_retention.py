"""Whole days of the record go, the oldest first, and nothing that is left is wrong."""

import datetime as dt
import time

import psycopg
import pytest
from django.db import connection
from django.test import Client

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store import instance_settings
from replview.store.models import (
    AbortedSubtransaction,
    ActorActivity,
    Baseline,
    Change,
    HistoryBlock,
    LargeValue,
    RelationActivity,
    SlotEvent,
    Transaction,
    Transition,
)
from replview.store.read.coverage import coverage_of
from replview.store.read.days import first_id_of
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.history import row_history
from replview.store.read.transactions.listing import find_transactions
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.retention import deletion as retention
from replview.store.retention import size as store_size
from replview.store.sums import activity
from tests.support.days import Days, days_ago, row, the, today
from tests.support.days import history as history
from tests.support.people import make_user

pytestmark = pytest.mark.django_db


def left() -> list[int]:
    """Return how many days ago each stored transaction was committed."""
    ids = Transaction.objects.order_by("commit_seq").values_list("commit_time", flat=True)
    return [(today().date() - at.date()).days for at in ids if at]


def sums() -> list[list[dict]]:
    return [list(one.objects.order_by("pk").values())
            for one in (HistoryBlock, RelationActivity, ActorActivity)]  # fmt: skip


def test_a_day_goes_with_all_that_belongs_to_it(history: Days) -> None:
    first, kept = (Transaction.objects.get(commit_seq=seq).pk for seq in (1, 5))
    for one in (first, kept):
        AbortedSubtransaction.objects.create(transaction_id=one, subxid=3)
        Transition.objects.create(transaction_id=one, state="streaming", recorded_at=today())
        LargeValue.objects.create(
            transaction_id=one, seq=1, side="new", column="c", piece=0, content="x"
        )
        Baseline.objects.create(
            slot=history.slot, schema="public", table="orders", state="done", transaction_id=one
        )

    dropped = retention.drop_day(the(4), why="to make room")

    assert dropped is not None
    assert (dropped.transactions, dropped.slots) == (4, (history.slot.pk,))
    assert left() == [3] * 4 + [2] * 4 + [1] * 4 + [0] * 4
    assert Change.objects.count() == 16
    assert retention.oldest_day() == the(3)
    for belonging in (AbortedSubtransaction, Transition, LargeValue, Baseline):
        assert [row.transaction_id for row in belonging.objects.all()] == [kept]
    line = SlotEvent.objects.get(kind="retention")
    assert line.message == f"The record of {the(4)} was deleted to make room."


def test_the_sums_are_those_of_what_is_left(history: Days) -> None:
    assert retention.drop_day(the(4))
    before = sums()
    activity.forget(history.incarnation.pk)
    activity.roll(time.monotonic() + 60)

    assert before[1:] == sums()[1:]
    assert before[0] == [block for block in sums()[0] if block["transactions"]]
    assert before[0][0]["transactions"] == 5, "places 5 to 9"

    assert retention.drop_day(the(3))
    assert retention.drop_day(the(2))
    assert [block.block for block in HistoryBlock.objects.all()] == [1]
    assert {row.day for row in ActorActivity.objects.all()} == {the(1), the(0)}


def test_the_sums_are_those_of_what_is_left_also_where_the_day_reached_into_another(
    history: Days,
) -> None:
    history.on(days_ago(4, 23), row(77), committed=days_ago(0, 4), actor="ann",
               actor_grade="stamped")  # fmt: skip
    for number in range(10):
        history.on(days_ago(0, 5), row(80 + number), actor="ben", actor_grade="stamped")
    activity.roll(time.monotonic() + 60)
    assert ActorActivity.objects.get(actor="ann", day=the(0), relation_id=0).transactions == 5

    assert retention.drop_day(the(4))
    before = sums()
    activity.forget(history.incarnation.pk)
    activity.roll(time.monotonic() + 60)
    assert before[1:] == sums()[1:]
    assert ActorActivity.objects.get(actor="ann", day=the(0), relation_id=0).transactions == 4


def test_no_day_goes_out_of_turn_and_none_of_the_last_two(history: Days) -> None:
    assert retention.drop_day(the(3)) is None
    for day in (4, 3, 2):
        assert retention.drop_day(the(day))
    assert retention.drop_day(the(1)) is None
    assert "Only today and yesterday" in retention.why_kept(the(1))
    assert left() == [1] * 4 + [0] * 4


@pytest.mark.parametrize("state", ["receiving", "streaming", "prepared", "copying"])
def test_a_day_with_an_open_transaction_is_kept(history: Days, state: str) -> None:
    history.on(days_ago(4), row(1), state=state, gid="waits")
    assert retention.drop_day(the(4)) is None
    assert "waits of shop/replview" in retention.why_kept(the(4))
    assert state in retention.why_kept(the(4))
    assert retention.drop_day(the(3)) is None, "none goes before the one before it"
    Transaction.objects.filter(state=state).update(state="aborted")
    assert retention.drop_day(the(4))


def test_coverage_begins_after_what_was_deleted(history: Days) -> None:
    assert coverage_of(reading_session(), history.slot).recorded_since == days_ago(4, 1)
    assert retention.drop_day(the(4))
    found = coverage_of(reading_session(), history.slot)

    last = days_ago(4, 2.3)
    assert found.recorded_since is not None
    assert last < found.recorded_since < last + dt.timedelta(seconds=1)
    assert found.recorded_since_lsn != "0/A"
    assert not found.says_no_change(days_ago(4, 2), days_ago(3))
    assert found.says_no_change(days_ago(4, 3), days_ago(3))


def test_a_row_is_unknown_in_deleted_time_and_never_said_not_to_have_been(history: Days) -> None:
    relation = history.orders.relation_id
    history.on(days_ago(0, 3), row(40))
    key = {"id": "40"}
    assert (
        row_as_of(reading_session(), history.slot, relation, key, moment=days_ago(4, 1.5)).exists
        is False
    )
    assert retention.drop_day(the(4))

    then = row_as_of(reading_session(), history.slot, relation, key, moment=days_ago(4, 1.5))
    assert (then.exists, then.why) == (None, "before the record")
    assert (
        row_as_of(reading_session(), history.slot, relation, key, lsn=1500).why
        == "before the record"
    )
    assert row_as_of(reading_session(), history.slot, relation, key).exists
    assert len(row_history(reading_session(), history.slot, relation, key).entries) == 1


def test_what_began_on_a_deleted_day_and_committed_later_is_a_break(history: Days) -> None:
    history.on(days_ago(0, 3), row(77))
    history.on(days_ago(4, 23), row(77), committed=days_ago(0, 4))
    relation, key = history.orders.relation_id, {"id": "77"}
    assert retention.drop_day(the(4))

    now = row_as_of(reading_session(), history.slot, relation, key)
    assert (now.exists, now.why) == (None, "left out")
    since = coverage_of(reading_session(), history.slot).recorded_since
    assert since is not None
    assert since > days_ago(0, 4)


def test_what_was_left_out_on_a_deleted_day_and_later_stays_a_break(history: Days) -> None:
    """A prepared transaction from a deleted day, skipped at its commit later, remains a break."""
    history.on(days_ago(0, 3), row(77))
    identifier = history.on(days_ago(4, 23), committed=days_ago(0, 4))
    Transaction.objects.filter(pk=identifier).update(state="skipped")
    assert retention.drop_day(the(4))

    now = row_as_of(reading_session(), history.slot, history.orders.relation_id, {"id": "77"})
    assert (now.exists, now.why) == (None, "left out")


def test_of_two_incarnations_neither_clock_nor_position_decides_for_the_other(
    history: Days,
) -> None:
    # The former incarnation's server was an hour ahead, and its WAL further.
    history.on(days_ago(4, 20), row(77), commit_lsn=LSN(1 << 40), end_lsn=LSN(1 << 40))
    second = history.new_incarnation()
    second.started_at, second.started_lsn = days_ago(4, 19), LSN(10)
    history.on(days_ago(4, 19.5), row(78), commit_lsn=LSN(70_000), end_lsn=LSN(70_010))
    history.on(days_ago(3, 19.5), row(79), commit_lsn=LSN(90_000), end_lsn=LSN(90_010))
    assert retention.drop_day(the(4))

    assert coverage_of(reading_session(), history.slot).recorded_since == days_ago(
        4, 20
    ) + dt.timedelta(microseconds=1)
    relation, key = history.orders.relation_id, {"id": "79"}
    # In the second incarnation before what was deleted of it; and after that.
    assert (
        row_as_of(reading_session(), history.slot, relation, key, lsn=60_000).why
        == "before the record"
    )
    assert (
        row_as_of(reading_session(), history.slot, relation, key, lsn=80_000).why
        != "before the record"
    )


def test_lists_and_filters_answer_over_what_is_left(history: Days) -> None:
    for day in (4, 3):
        assert retention.drop_day(the(day))
    for wanted in (
        TransactionFilter(slot="shop/replview"),
        TransactionFilter(slot="shop/replview", actor="ann"),
        TransactionFilter(slot="shop/replview", ops="I"),
        TransactionFilter(slot="shop/replview", tables=("public.orders",)),
    ):
        found = find_transactions(reading_session(), wanted, limit=100)
        assert len(found.rows) == 12
        assert found.older is None


def test_it_goes_on_after_a_crash(history: Days, monkeypatch) -> None:
    monkeypatch.setattr(retention, "TRANSACTIONS_TOGETHER", 3)
    assert retention.drop_day(the(4), deadline=time.monotonic() - 1) is None
    assert retention.is_under_way()
    assert left().count(4) == 1
    assert retention.drop_day(the(4)) is None, "one at a time"

    store_size.enforce()

    assert not retention.is_under_way()
    assert left().count(4) == 0
    assert retention.oldest_day() == the(3)
    assert SlotEvent.objects.filter(kind="retention").count() == 1


@pytest.mark.parametrize(
    ("where", "call"),
    [("_delete_some", 1), ("_delete_some", 2), ("recount", 1), ("_drop_partition", 1)],
)
def test_a_crash_between_any_two_steps_ends_as_no_crash_would(
    history: Days, monkeypatch, where: str, call: int
) -> None:
    monkeypatch.setattr(retention, "TRANSACTIONS_TOGETHER", 3)
    real, calls = getattr(retention, where), []

    def crashes(*given):
        calls.append(given)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(retention, where, crashes)
    with pytest.raises(KeyboardInterrupt):
        retention.drop_day(the(4))
    assert retention.is_under_way()
    # Whatever was done by then, nothing is claimed of that day.
    assert not coverage_of(reading_session(), history.slot).says_no_change(
        days_ago(4, 2), days_ago(3)
    )
    assert not Change.objects.exclude(
        transaction_id__in=Transaction.objects.values("pk")
    ).filter(transaction_id__gte=first_id_of(the(3))).exists()  # fmt: skip

    assert retention.finish()
    assert not retention.is_under_way()
    assert left() == [3] * 4 + [2] * 4 + [1] * 4 + [0] * 4
    assert Change.objects.count() == 16
    before = sums()
    activity.forget(history.incarnation.pk)
    activity.roll(time.monotonic() + 60)
    assert before[1:] == sums()[1:]
    assert SlotEvent.objects.filter(kind="retention").count() == 1


def test_over_the_budget_days_go_until_there_is_room(history: Days, monkeypatch) -> None:
    instance_settings.write("store.budget_bytes", 50 << 30, "test")
    sizes = iter([60 << 30, 60 << 30, 55 << 30, 49 << 30, 49 << 30])
    monkeypatch.setattr(store_size, "size_now", lambda: next(sizes))

    store_size.enforce()

    assert retention.oldest_day() == the(2)
    message = SlotEvent.objects.filter(kind="retention").latest("pk").message
    assert (
        message
        == f"The record of {the(3)} was deleted because the store reached its budget of 50 GB."
    )
    assert store_size.measure().stuck == ""


def test_where_no_room_can_be_made_it_is_said(history: Days, monkeypatch) -> None:
    instance_settings.write("store.budget_bytes", 1, "test")
    store_size.enforce()
    assert retention.oldest_day() == the(1)
    assert "Only today and yesterday" in store_size.measure().stuck

    instance_settings.write("store.budget_bytes", None, "test")
    store_size.enforce()
    assert store_size.measure().stuck == ""


def test_to_protect_the_record_nothing_is_deleted(history: Days) -> None:
    instance_settings.write("store.budget_bytes", 1, "test")
    instance_settings.write("store.protect", "record", "test")
    store_size.enforce()
    assert retention.oldest_day() == the(4)
    assert len(left()) == 20


def test_pages_answer_and_a_deleted_transaction_says_so(history: Days) -> None:
    gone = Transaction.objects.get(commit_seq=1).pk
    kept = Transaction.objects.get(commit_seq=20).pk
    relation = history.orders.relation_id
    for day in (4, 3):
        assert retention.drop_day(the(day))
    client = Client()
    client.force_login(make_user("ann", "admin"))

    text = f"Days up to {the(3)} (UTC) were deleted"
    before = f"until={days_ago(3, 1).isoformat().replace('+', '%2B')}"
    for slot in ("", "slot=shop/replview&"):
        assert text in client.get(f"/transactions/?{slot}{before}", follow=True).content.decode()
    page = client.get(f"/transactions/{gone}/")
    assert page.status_code == 404
    assert f"The record of {the(4)} was deleted" in page.content.decode()
    rows = "/rows/?slot=shop/replview&table=public.orders&key.id=20"
    for address in (
        "/", "/store/", "/transactions/?slot=shop/replview", f"/transactions/{kept}/",
        "/relations/", f"/relations/{relation}/", rows,
        "/slots/shop/replview/", "/actors/", "/find/", "/live/",
    ):  # fmt: skip
        assert client.get(address, follow=True).status_code == 200, address


@pytest.mark.django_db(transaction=True)
def test_a_partition_in_use_is_left_for_the_next_time() -> None:
    low, high = first_id_of(the(4)), first_id_of(the(3))
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE change_{the(4):%Y%m%d} PARTITION OF change "
                       f"FOR VALUES FROM ({low}) TO ({high})")  # fmt: skip
    settings = connection.settings_dict
    with psycopg.connect(
        host=settings["HOST"], port=settings["PORT"] or None, dbname=settings["NAME"],
        user=settings["USER"] or None, password=settings["PASSWORD"] or None,
    ) as other:  # fmt: skip
        other.execute("SELECT * FROM change LIMIT 1")
        begun = time.monotonic()
        assert retention.drop_day(the(4)) is None
        assert time.monotonic() - begun < 30
        instance_settings.write("store.budget_bytes", 1, "test")
        store_size.enforce()
        assert store_size.measure().stuck == retention.what_waits() != ""
    assert retention.oldest_day() == the(4)
    assert retention.finish()
    assert retention.what_waits() == ""
    assert retention.oldest_day() != the(4)
