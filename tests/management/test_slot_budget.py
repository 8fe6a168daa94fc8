"""``replview slot add`` and ``slot set``: the WAL budget, what comes first, heartbeat, failover."""

import pytest
from django.core.management.base import CommandError

from replview.store.models import Setting, Slot, SlotEvent
from tests.support.source_traces import left_on


def test_the_plan_says_the_budget_and_what_follows(run, registered, shop) -> None:
    text = run("slot", "add", "shop", "mine", "--yes")

    assert "WAL budget 10\xa0GB (the server has no limit of its own" in text
    assert "at 5\xa0GB of retained WAL; at 10\xa0GB it stops its receiver and drops slot" in text
    assert "could keep a copy of it (--failover)" in text
    slot = Slot.objects.get()
    assert (slot.wal_budget_bytes, slot.protect) == (10 << 30, "database")


def test_a_budget_choice_heartbeat_and_failover_are_asked_for(run, registered, shop) -> None:
    text = run("slot", "add", "shop", "mine", "--yes", "--wal-budget", "512MB", "--protect",
               "record", "--heartbeat", "60", "--failover")  # fmt: skip

    assert "never drops the slot, so the source's disk can fill up" in text
    assert "pg_logical_emit_message(true, 'replview.heartbeat', '')" in text
    assert "synchronized_standby_slots is empty" in text
    slot = Slot.objects.get()
    assert (slot.wal_budget_bytes, slot.protect, slot.heartbeat_seconds) == (
        512 << 20, "record", 60
    )  # fmt: skip
    with shop.connect() as connection:
        made = "SELECT failover, two_phase FROM pg_replication_slots WHERE slot_name = 'mine'"
        assert connection.execute(made).fetchone() == (True, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--wal-budget", "much"], "is no size"),
        (["--wal-budget", "1MB"], "at least 64\xa0MB"),
        (["--wal-budget", "none"], "needs a WAL budget"),
        (["--heartbeat", "1"], "seconds from 5"),
    ],
)
def test_what_makes_no_sense_is_refused(run, registered, shop, words, why) -> None:
    with pytest.raises(CommandError, match=why):
        run("slot", "add", "shop", "mine", "--yes", *words)
    assert left_on(shop) == (set(), set())


def test_an_adopted_slot_is_dropped_only_if_asked_for(run, registered, shop) -> None:
    shop.run("SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
    text = run("slot", "add", "shop", "theirs", "--adopt", "--yes", "--tables", "orders")

    assert "no WAL budget: replview never drops the slot" in text
    slot = Slot.objects.get()
    assert (slot.wal_budget_bytes, slot.protect) == (None, "record")
    run("slot", "set", "shop", "theirs", "--wal-budget", "1GB")
    slot.refresh_from_db()
    assert (slot.wal_budget_bytes, slot.protect) == (1 << 30, "record")
    assert "may drop it now" in run("slot", "set", "shop", "theirs", "--protect", "database")


def test_it_is_changed_later_and_the_log_says_by_whom(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes", "--stopped")
    text = run("slot", "set", "shop", "mine", "--wal-budget", "2GB", "--heartbeat", "30")

    assert "at 2\xa0GB it stops its receiver" in text
    slot = Slot.objects.get()
    assert (slot.wal_budget_bytes, slot.heartbeat_seconds, slot.epoch) == (2 << 30, 30, 0)
    assert "the command line" in SlotEvent.objects.get(kind="budget").message
    assert "no heartbeat" in run("slot", "set", "shop", "mine", "--heartbeat", "none")


def test_the_store_has_a_budget_too(run) -> None:
    text = run("store", "--budget", "50GB", "--protect", "record")

    assert "all receivers stop; nothing stored is deleted" in text
    assert Setting.objects.get(name="store.budget_bytes").value == 50 << 30
    assert "No budget" in run("store", "--budget", "none")
