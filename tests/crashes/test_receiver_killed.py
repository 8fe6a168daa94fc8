"""``kill -9`` of a receiver, at the worst moments and at many random ones."""

import random
import time

import pytest

from replview.runtime.failpoints import Point
from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.failpoints import environment
from tests.support.received_slots import ReceivedSlot
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow
KILLS = {"walsender": 5, "sql": 3}


def test_many_kills_under_load_lose_nothing_and_double_nothing(
    source: SourceDatabase, receive: Receive, interface: str
) -> None:
    slot = receive(source, interface=interface)
    generator = random.Random(1)
    recoveries = []
    with Workload(source) as workload:
        for number in range(KILLS[interface]):
            time.sleep(generator.uniform(0.05, 0.8))
            slot.receivers[-1].kill()
            killed_at = time.monotonic()
            # Most without the wait for the lease: the moments differ, that wait does not.
            if number > 0:
                slot.free_lease()
            owner = f"after kill {number}"
            slot.start(owner)
            slot.streaming(owner)
            if number == 0:
                recoveries.append(time.monotonic() - killed_at)
            workload.more(2)
    slot.caught_up()

    assert assert_true_record(slot) > 10
    assert len(slot.events("connected")) == KILLS[interface] + 1
    print(f"{interface}: seconds to live again after a kill: {[round(s, 1) for s in recoveries]}")
    # A lease runs out in six seconds; the rest is the machine's.
    assert min(recoveries) < 60


def test_killed_in_the_middle_of_a_copy_into_the_store(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(source)
    slot.store.run(
        "CREATE FUNCTION dwell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_advisory_xact_lock(250); RETURN NEW; END $$"
    )
    slot.store.run(
        "CREATE TRIGGER dwell BEFORE INSERT ON change FOR EACH ROW WHEN (NEW.seq = 250) "
        "EXECUTE FUNCTION dwell()"
    )
    dwelling = "SELECT FROM pg_stat_activity WHERE query LIKE 'COPY%%' AND wait_event = 'advisory'"
    with slot.store.connect() as holder:
        holder.execute("SELECT pg_advisory_lock(250)")
        source.run("INSERT INTO t SELECT n, n, 'x' FROM generate_series(1, 500) n")
        wait_for(lambda: slot.store.rows(dwelling))
        slot.receivers[0].kill()
    slot.store.run("DROP TRIGGER dwell ON change")
    _goes_on_after_a_kill(slot)


@pytest.mark.parametrize("point", [Point.BEFORE_COPY, Point.AFTER_COPY])
def test_killed_before_the_store_has_committed(
    source: SourceDatabase, receive: Receive, point: Point
) -> None:
    slot = receive(source, start=False)
    first = slot.start(**environment({point: "kill"}))
    slot.streaming()
    source.run("INSERT INTO t SELECT n, n, 'x' FROM generate_series(1, 500) n")
    first.killed()
    assert not slot.transactions("committed")
    _goes_on_after_a_kill(slot)


def _goes_on_after_a_kill(slot: ReceivedSlot) -> None:
    """Have a second receiver store the one transaction of the source, once."""
    slot.free_lease()
    slot.start("second")
    slot.caught_up()

    assert_true_record(slot)
    # The part of the transaction that the first receiver had shown early is discarded.
    [transaction] = slot.transactions("committed")
    assert transaction["inserts"] == 500


def test_killed_between_the_stores_commit_and_the_confirmation(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(source, start=False)
    first = slot.start(**environment({Point.BEFORE_CONFIRM: "kill@2"}))
    slot.streaming()
    source.run("INSERT INTO t VALUES (1, 1, 'confirmed')")
    slot.caught_up()
    source.run("INSERT INTO t VALUES (2, 2, 'stored, never confirmed')")
    first.killed()
    assert len(slot.transactions("committed")) == 2
    assert slot.confirmed_lsn() < slot.stored_lsn()
    slot.free_lease()
    slot.start("second")
    slot.streaming("second")
    source.run("INSERT INTO t VALUES (3, 3, 'after')")
    slot.caught_up()

    assert_true_record(slot)
    assert [t["inserts"] for t in slot.transactions()] == [1, 1, 1]


def test_killed_in_the_middle_of_a_streamed_transaction(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(source)
    rows = "INSERT INTO t SELECT n, n, repeat('x', 200) FROM generate_series(%s::int, %s::int) n"
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(rows, [1, 1000])
        wait_for(lambda: slot.transactions("streaming"))
        slot.receivers[0].kill()
        session.execute(rows, [1001, 2000])
        slot.free_lease()
        slot.start("second")
        slot.streaming("second")
        assert slot.transactions("discarded") or not slot.transactions()
        session.execute("COMMIT")
    slot.caught_up()

    assert_true_record(slot)
    [committed] = slot.transactions("committed")
    assert committed["inserts"] == 2000
    slot.says("half received")


def test_killed_between_prepare_and_commit_prepared(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(source)
    for number, ending in ((1, "COMMIT"), (2, "ROLLBACK")):
        source.run(
            f"BEGIN; INSERT INTO t VALUES ({number}, 1, ''); PREPARE TRANSACTION 'g{ending}'"
        )
    wait_for(lambda: len(slot.transactions("prepared")) == 2)
    slot.receivers[0].kill()
    for ending in ("COMMIT", "ROLLBACK"):
        source.run(f"{ending} PREPARED 'g{ending}'")
    slot.free_lease()
    slot.start("second")
    slot.caught_up()

    assert_true_record(slot)
    states = {t["gid"]: (t["state"], t["inserts"]) for t in slot.transactions()}
    assert states == {"gCOMMIT": ("committed", 1), "gROLLBACK": ("rolled back", 1)}
