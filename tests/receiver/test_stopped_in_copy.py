"""A receiver that is stopped in the middle of a COPY: its slot's row must come free."""

import psycopg
import pytest

from replview.store.connecting import connect_store
from replview.store.models import Slot, Source
from replview.store.write import lease
from tests.support.waiting import wait_for

_LONG_AGO = "UPDATE slot SET heartbeat_at = clock_timestamp() - interval '1 minute' WHERE id = %s"


@pytest.fixture
def slot(transactional_db) -> Slot:
    """A slot whose last heartbeat is a minute old."""
    source = Source.objects.create(name="stopped", conninfo="in the test")
    return Slot.objects.create(source=source, name="stopped")


def _stop_in_a_copy(receiver: psycopg.Connection, slot: Slot) -> None:
    """Leave a batch as SIGSTOP may: the slot's row locked, a COPY begun, no data sent."""
    assert lease.take(receiver, slot.pk, "stopped") is not None
    receiver.execute(_LONG_AGO, [slot.pk])
    receiver.execute("BEGIN")
    receiver.execute(_LONG_AGO, [slot.pk])
    receiver.pgconn.send_query(b"COPY change FROM STDIN (FORMAT BINARY)")
    receiver.pgconn.flush()


def test_a_receiver_stopped_in_a_copy_loses_its_slot(slot: Slot, settings) -> None:
    settings.STORE_GONE_SECONDS = 0.75
    stopped = connect_store("replview receiver")
    with connect_store("replview receiver") as other:
        _stop_in_a_copy(stopped, slot)
        assert lease.take(other, slot.pk, "other") is None
        assert wait_for(lambda: lease.take(other, slot.pk, "other"))
    stopped.close()


def test_a_copy_that_began_just_now_is_left_alone(slot: Slot) -> None:
    busy = connect_store("replview receiver")
    with connect_store("replview receiver") as other:
        _stop_in_a_copy(busy, slot)
        for _ in range(3):
            assert lease.take(other, slot.pk, "other") is None
        still_there = other.execute(
            "SELECT FROM pg_stat_activity WHERE pid = %s", [busy.info.backend_pid]
        )
        assert still_there.fetchone() is not None
    busy.close()
