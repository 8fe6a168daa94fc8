"""Exactly one receiver writes for a slot, whatever else believes it should."""

import threading

import psycopg
import pytest

from replview.receiver.run import receive
from replview.store.connecting import connect_store
from replview.store.write import lease as leases
from replview.store.write.incarnations import SessionIncarnation, read_slot, resume
from replview.store.write.lease import Fenced
from tests.receiver.conftest import BOTH_INTERFACES
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

TABLE = "CREATE TABLE t (n int PRIMARY KEY)"


@BOTH_INTERFACES
def test_a_second_receiver_finds_the_slot_taken(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)

    took = receive(
        recording.slot.pk,
        owner="second",
        stop=threading.Event(),
        conninfo_of=lambda _: source.dsn,
    )

    assert took is False


@BOTH_INTERFACES
def test_a_receiver_that_was_taken_over_stops_and_writes_nothing(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source)
    slot = recording.slot
    # Somebody else takes over, as after a network that was cut in half.
    type(slot).objects.filter(pk=slot.pk).update(epoch=slot.epoch + 1, lease_owner="other")

    source.run("INSERT INTO t VALUES (1)")
    wait_for(lambda: not recording.threads[0].is_alive())

    assert recording.transactions() == []


def test_a_lease_that_ran_out_is_taken_and_fences_its_former_owner(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    slot = record(source, start=False).slot
    with connect_store() as store:
        first = leases.take(store, slot.pk, "first")
        assert first is not None
        assert leases.take(store, slot.pk, "second") is None
        store.execute("UPDATE slot SET heartbeat_at = now() - interval '1 minute'")

        second = leases.take(store, slot.pk, "second")

        assert second is not None
        assert second.epoch == first.epoch + 1
        with pytest.raises(Fenced):
            leases.beat(store, first)
        leases.release(store, second)


def test_a_row_locked_by_a_writing_receiver_is_alive_whatever_its_heartbeat(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    slot = record(source, start=False).slot
    with connect_store() as writing, connect_store() as other:
        lease = leases.take(writing, slot.pk, "slow")
        assert lease is not None
        writing.execute("UPDATE slot SET heartbeat_at = now() - interval '1 minute'")
        with writing.transaction():
            leases.beat(writing, lease)
            assert leases.take(other, slot.pk, "impatient") is None


def test_what_still_hangs_when_a_lease_is_given_back_can_write_no_more(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    slot = record(source, start=False).slot
    with connect_store() as store:
        lease = leases.take(store, slot.pk, "first")
        assert lease is not None
        assert leases.release(store, lease)

        with pytest.raises(Fenced):
            leases.beat(store, lease)
        assert not leases.release(store, lease)


def test_a_session_resumes_behind_a_write_that_was_still_in_flight(
    source: SourceDatabase, record
) -> None:
    """Given up as hanging, the write of the former session was committed after all."""
    source.run(TABLE)
    recording = record(source)
    source.run("INSERT INTO t VALUES (1)")
    recording.caught_up()
    recording.end()
    resumed: list[SessionIncarnation] = []
    with connect_store() as hanging, connect_store() as store:
        lease = leases.take(store, recording.slot.pk, "next")
        assert lease is not None
        slot = read_slot(store, recording.slot.pk)
        with hanging.transaction():
            hanging.execute("UPDATE slot SET checkpoint_lsn = '7/0' WHERE id = %s", [slot.id])
            hanging.execute("UPDATE slot_incarnation SET commit_seq = 9")
            resuming = threading.Thread(target=lambda: resumed.append(resume(store, lease, slot)))
            resuming.start()
            resuming.join(0.3)
        resuming.join(5)

    [incarnation] = resumed
    assert (str(incarnation.checkpoint_lsn), incarnation.commit_seq) == ("7/0", 9)


def test_a_lease_is_kept_though_the_store_has_no_connection_for_a_moment(
    source: SourceDatabase, record, monkeypatch
) -> None:
    monkeypatch.setattr(leases, "KEEP_SECONDS", 0.05)
    source.run(TABLE)
    slot = record(source, start=False).slot
    refusals = iter([psycopg.OperationalError("too many clients")] * 3)

    def connect() -> psycopg.Connection:
        for refusal in refusals:
            raise refusal
        return connect_store()

    with connect_store() as store:
        lease = leases.take(store, slot.pk, "first")
        assert lease is not None
        store.execute("UPDATE slot SET heartbeat_at = NULL WHERE id = %s", [slot.pk])
        with leases.kept(connect, lease):
            wait_for(lambda: type(slot).objects.get(pk=slot.pk).heartbeat_at, 5)
        leases.release(store, lease)


def test_a_stopped_slot_is_not_taken(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    slot = record(source, start=False).slot
    slot.desired = slot.Desired.STOPPED
    slot.save()
    with connect_store() as store:
        assert leases.take(store, slot.pk, "anyone") is None


@BOTH_INTERFACES
def test_stopping_the_slot_ends_its_receiver(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)
    type(recording.slot).objects.update(desired="stopped")

    wait_for(lambda: not recording.threads[0].is_alive())

    recording.slot.refresh_from_db()
    assert (recording.slot.state, recording.slot.lease_owner) == ("stopped", "")
