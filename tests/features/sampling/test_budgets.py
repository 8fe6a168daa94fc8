"""WAL budgets, enforced on a real source: what is dropped, what never is, and what is recorded."""

import threading
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection as store_connection

from decoder.scalars import LSN
from replview.catalog.connections import connect
from replview.features.sampling import budgets
from replview.receiver.sessions.walsender import ReplicationSession
from replview.store.dsn import set_dsn
from replview.store.models import Slot, SlotEvent, WatchedSlot
from replview.store.retention.tidy import make_partitions
from tests.support.recording import Recording
from tests.support.sampling import sample_source
from tests.support.waiting import wait_for

MEGABYTE = 1024**2


def registered_slot(record, source, **options) -> Recording:
    """A slot whose source is registered, so that it can be sampled and asked."""
    make_partitions()
    recording = record(source, **options)
    set_dsn(recording.slot.source, source.dsn)
    recording.slot.source.save()
    return recording


def pile_up(source, size_megabytes: int = 2) -> None:
    """Write so much WAL."""
    source.run(
        "SELECT count(pg_logical_emit_message(true, 'pile', repeat('x', 1024 * 1024))) "
        f"FROM generate_series(1, {size_megabytes})"
    )


def enforce(slot: Slot, *, seconds: float = 30.0) -> None:
    """Sample, enforce, and wait until every source that was asked has answered."""
    sample_source(slot.source)
    for begun in budgets.enforce():
        begun.result(seconds)
    slot.refresh_from_db()


def is_there(source, slot: Slot) -> bool:
    with source.connect() as connection:
        found = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
        return connection.execute(found, [slot.name]).fetchone() is not None


def budget_of(slot: Slot, size_bytes: int = MEGABYTE, **more) -> None:
    Slot.objects.filter(pk=slot.pk).update(wal_budget_bytes=size_bytes, **more)
    slot.refresh_from_db()


@pytest.mark.slow
def test_at_the_budget_the_slot_is_dropped_and_created_anew_with_a_gap(any_source, record) -> None:
    any_source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = registered_slot(record, any_source)
    slot = recording.slot
    any_source.run("INSERT INTO t VALUES (1)")
    recording.caught_up()
    recording.end()
    budget_of(slot)
    pile_up(any_source)

    enforce(slot)

    assert not is_there(any_source, slot)
    assert (slot.problem_code, slot.desired, slot.state) == ("wal_budget", "stopped", "failed")
    assert "replview slot start" in slot.problem_remedy
    line = SlotEvent.objects.filter(slot=slot, kind="budget").last()
    assert line.detail["retained_wal_bytes"] >= MEGABYTE
    assert "The record ends here" in line.message

    any_source.run("INSERT INTO t VALUES (2)")
    out = StringIO()
    call_command("slot", "start", slot.source.name, slot.name, yes=True, stdout=out)
    assert "pg_create_logical_replication_slot" in out.getvalue()
    assert is_there(any_source, slot)
    recording.start()
    recording.streaming()
    any_source.run("INSERT INTO t VALUES (3)")
    recording.caught_up()

    slot.refresh_from_db()
    assert (slot.incarnation.number, slot.incarnation.reason) == (2, "recreated")
    gap = SlotEvent.objects.get(slot=slot, kind="gap")
    assert "dropped the slot at its WAL budget" in gap.message
    stored = [change.new for found in recording.transactions(state="committed")
              for change in recording.changes(found)]  # fmt: skip
    assert [row["id"] for row in stored if row] == ["1", "3"], "2 lies in the gap"


def test_to_protect_the_record_nothing_is_dropped(source, record) -> None:
    recording = registered_slot(record, source, start=False)
    budget_of(recording.slot, protect="record")
    pile_up(source)

    enforce(recording.slot)
    enforce(recording.slot)

    assert is_there(source, recording.slot)
    assert recording.slot.problem_code == ""
    warnings = SlotEvent.objects.filter(slot=recording.slot, kind="budget")
    assert ["nothing is dropped" in line.message for line in warnings] == [True], "warned once"


def test_a_stale_sample_drops_nothing(source, record) -> None:
    recording = registered_slot(record, source, start=False)
    budget_of(recording.slot, 1024 * MEGABYTE)
    sample_source(recording.slot.source)
    # The sample is no longer true: the source is asked again, and reports less.
    row = WatchedSlot.objects.get(slot=recording.slot)
    row.facts["retained_wal_bytes"] = 5000 * MEGABYTE
    row.save()

    for begun in budgets.enforce():
        begun.result(30)

    recording.slot.refresh_from_db()
    assert is_there(source, recording.slot)
    assert recording.slot.desired == Slot.Desired.RUNNING


def test_an_unknown_sample_drops_nothing(source, record) -> None:
    recording = registered_slot(record, source, start=False)
    budget_of(recording.slot)
    pile_up(source)
    sample_source(recording.slot.source)
    row = WatchedSlot.objects.get(slot=recording.slot)
    row.facts["retained_wal_bytes"] = None
    row.save()

    assert budgets.enforce() == []


def test_the_slot_of_another_cluster_is_left_alone(source, record) -> None:
    recording = registered_slot(record, source)
    recording.streaming()
    recording.end()
    slot = recording.slot
    slot.refresh_from_db()
    slot.incarnation.system_identifier = "4711"
    slot.incarnation.save()
    budget_of(slot)
    pile_up(source)

    enforce(slot)

    assert is_there(source, slot)
    assert slot.problem_code == ""


@pytest.mark.slow
def test_a_receiver_that_frees_wal_as_it_stops_keeps_its_slot(source, record) -> None:
    recording = registered_slot(record, source, start=False)
    slot = recording.slot
    budget_of(slot, lease_owner="another worker")
    pile_up(source)

    def confirm_and_let_go() -> None:
        stopped = Slot.objects.filter(pk=slot.pk, desired="stopped")
        wait_for(stopped.exists)
        with source.connect() as connection:
            # Twice: restart_lsn follows what was confirmed before.
            for _ in range(3):
                connection.execute("CHECKPOINT")
                if source.version >= 16:  # before that a checkpoint does it
                    connection.execute("SELECT pg_log_standby_snapshot()")
                connection.execute(
                    "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [slot.name]
                )
        stopped.update(lease_owner="")
        store_connection.close()

    thread = threading.Thread(target=confirm_and_let_go)
    thread.start()
    enforce(slot)
    thread.join()

    assert is_there(source, slot)
    assert (slot.desired, slot.problem_code) == ("running", "")


@pytest.mark.slow
def test_a_reader_that_does_not_let_go_is_ended(source, record, monkeypatch) -> None:
    monkeypatch.setattr(budgets, "RELEASE_SECONDS", 0.3)
    recording = registered_slot(record, source, start=False)
    budget_of(recording.slot)
    pile_up(source)
    hanging = ReplicationSession(source.dsn, client_encoding="UTF8")
    try:
        hanging.start(recording.slot.name, LSN(0), {"proto_version": "1",
                      "publication_names": recording.slot.name})  # fmt: skip
        enforce(recording.slot)
    finally:
        hanging.close()

    def is_gone() -> bool:
        if is_there(source, recording.slot):
            enforce(recording.slot)
        return not is_there(source, recording.slot)

    wait_for(is_gone)


def test_what_an_ended_worker_left_is_settled(source, record) -> None:
    recording = registered_slot(record, source, start=False)
    slot = recording.slot
    budget_of(slot, 1024 * MEGABYTE, desired="stopped", problem_code="wal_budget")

    enforce(slot)

    assert (slot.desired, slot.problem_code) == ("running", "")
    with connect(source.dsn, read_only=False) as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot.name])
    Slot.objects.filter(pk=slot.pk).update(desired="stopped", problem_code="wal_budget")
    enforce(slot)
    assert "replview slot start" in slot.problem_remedy


@pytest.fixture(autouse=True)
def an_instance(settings) -> None:
    """The test's store counts as a running instance."""
    settings.STORE_URL = "postgresql://the-test-store/"
