"""Two receivers for one slot, and one that sleeps through the loss of its lease."""

import time

import pytest

from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow


def test_of_two_receivers_exactly_one_writes(source: SourceDatabase, receive: Receive) -> None:
    slot = receive(source, start=False)
    for owner in ("one", "two"):
        slot.start(owner)
    slot.streaming()
    first = slot.row()["lease_owner"]
    epoch = slot.row()["epoch"]
    with Workload(source) as workload:
        workload.more(20)
    slot.caught_up()

    assert_true_record(slot)
    row = slot.row()
    assert (row["lease_owner"], row["epoch"]) == (first, epoch)
    assert len(slot.events("connected")) == 1


def test_a_receiver_that_wakes_up_after_its_lease_was_taken_writes_nothing(
    source: SourceDatabase, receive: Receive
) -> None:
    """Asleep in the middle of a write: what it held back must not come through afterwards."""
    slot = receive(source)
    sleeper = slot.receivers[0]
    with Workload(source, pause_seconds=0.05) as workload:
        workload.more(5)
        sleeper.pause()
        slept_at = time.monotonic()
        slot.start("second")
        # The server ends the sleeper's session, and with it its hold on the slot, after 10 s.
        slot.streaming("second")
        taken_over = time.monotonic() - slept_at
        before = slot.stored_lsn()
        wait_for(lambda: slot.stored_lsn() > before)
        epoch = slot.row()["epoch"]
        sleeper.resume()
        workload.more(20)
    wait_for(lambda: "another receiver took over" in sleeper.said(), what=sleeper.said())
    slot.caught_up()

    print(f"seconds until a sleeping receiver was replaced: {taken_over:.1f}")
    assert_true_record(slot)
    row = slot.row()
    assert (row["lease_owner"], row["epoch"]) == ("second", epoch)
    slot.says("took over")
