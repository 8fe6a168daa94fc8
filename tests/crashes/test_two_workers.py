"""Two receivers for one slot, and one that sleeps through the loss of its lease."""

from pathlib import Path

import pytest

from replview.runtime.failpoints import Point
from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.failpoints import environment, pause
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow

#: The source ends the session of a sleeping receiver soon. The sleeper never takes a lease back
#: because its holder is slow, as everything is on a busy machine.
SLEEPER = {"REPLVIEW_WALSENDER_TIMEOUT_SECONDS": "4", "REPLVIEW_LEASE_SECONDS": "600"}
#: The second receiver is started when the sleeper stands still already.
SECOND = {"REPLVIEW_LEASE_SECONDS": "1"}


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


@pytest.mark.parametrize(
    "asleep_at", [Point.BEFORE_STORE, pytest.param(Point.AFTER_COPY, marks=pytest.mark.long)]
)
def test_a_receiver_that_wakes_up_after_its_lease_was_taken_writes_nothing(
    source: SourceDatabase, receive: Receive, tmp_path: Path, asleep_at: Point
) -> None:
    """Stop a receiver with a batch in its hands until another receiver has stored the same.

    Before its store transaction the sleeper keeps its session with the store, and goes on to write
    when it wakes up. Within the transaction the store ends the session.
    """
    reached = tmp_path / "reached"
    slot = receive(source, start=False)
    sleeper = slot.start("sleeper", **SLEEPER, **environment({asleep_at: pause(reached)}))
    slot.streaming("sleeper")
    source.run("INSERT INTO t VALUES (1, 1, '')")
    wait_for(reached.exists)
    sleeper.pause()
    slot.start("second", **SECOND)
    slot.streaming("second")
    wait_for(lambda: slot.transactions("committed"))
    epoch = slot.row()["epoch"]
    reached.unlink()
    sleeper.resume()
    with Workload(source) as workload:
        workload.more(20)
    wait_for(lambda: "another receiver took over" in sleeper.said(), what=sleeper.said)
    slot.caught_up()

    assert_true_record(slot)
    row = slot.row()
    assert (row["lease_owner"], row["epoch"]) == ("second", epoch)
    slot.says("sleeper", "second took over")
