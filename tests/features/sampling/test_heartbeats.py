"""Heartbeats: they reach an idle database, come through as messages, and no oftener than asked."""

import pytest

from replview.features.sampling import heartbeats
from replview.store.dsn import set_dsn
from replview.store.models import Slot
from replview.store.retention.tidy import make_partitions
from tests.support.waiting import wait_for


@pytest.fixture
def idle(any_source, record):
    """A slot that streams from a database in which nothing happens."""
    make_partitions()
    recording = record(any_source)
    set_dsn(recording.slot.source, any_source.dsn)
    recording.slot.source.in_recovery = False
    recording.slot.source.save()
    return recording


def write() -> int:
    begun = heartbeats.write_due()
    for one in begun:
        one.result(20)
    return len(begun)


def test_an_idle_database_gets_one_message_and_the_slot_moves(idle) -> None:
    before = idle.slot.checkpoint_lsn
    assert write() == 0, "none was asked for"
    Slot.objects.filter(pk=idle.slot.pk).update(heartbeat_seconds=60)

    assert write() == 1
    assert write() == 0, "not again before its time"

    if idle.source.version >= 14:
        [transaction] = wait_for(lambda: idle.transactions(state="committed"))
        [change] = idle.changes(transaction)
        assert change.op == "M"
    idle.caught_up()
    assert idle.source.version >= 14 or idle.transactions() == [], "it is not sent, only passed"
    assert before is None or idle.slot.checkpoint_lsn > before


def test_none_is_written_for_a_slot_that_nobody_receives(idle) -> None:
    Slot.objects.filter(pk=idle.slot.pk).update(heartbeat_seconds=60, desired="stopped")

    assert write() == 0
