"""The network between a receiver and its source, and its store: cut, half closed, frozen, slow."""

import time
from collections.abc import Iterator

import pytest

from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.crash_stores import CrashStore
from tests.support.proxy import Proxy
from tests.support.received_slots import ReceivedSlot
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow
#: The seconds that a receiver and a source wait for each other, and for a store, when a host
#: vanishes; and the seconds after which all must be well again.
VANISHED_SECONDS = 4
RECOVERY_SECONDS = 21
IMPATIENT = {
    "REPLVIEW_WALSENDER_TIMEOUT_SECONDS": str(VANISHED_SECONDS),
    "REPLVIEW_STORE_GONE_SECONDS": str(VANISHED_SECONDS),
    "REPLVIEW_LEASE_SECONDS": "3",
}


@pytest.fixture
def to_source(source: SourceDatabase) -> Iterator[Proxy]:
    """The network on the way to the source."""
    with Proxy(source.server.port) as proxy:
        yield proxy


@pytest.fixture
def to_store(store: CrashStore) -> Iterator[Proxy]:
    """The network on the way to the store."""
    with Proxy(store.server.port) as proxy:
        store.port = proxy.port
        yield proxy


def _stored_again(slot: ReceivedSlot, seconds: float = 60.0) -> float:
    """Wait until something new is in the store; how many seconds that took."""
    begun, before = time.monotonic(), slot.stored_lsn()
    wait_for(lambda: slot.stored_lsn() > before, seconds, f"stored again\n{slot.sentences()}")
    return time.monotonic() - begun


def test_a_network_that_cuts_and_half_closes_on_the_way_to_the_source(
    source: SourceDatabase, receive: Receive, to_source: Proxy, interface: str
) -> None:
    slot = receive(source, dsn=to_source.dsn(source.dsn), interface=interface)
    recoveries = []
    with Workload(source) as workload:
        for fail in (to_source.cut, to_source.half_close, to_source.cut):
            workload.more(5)
            fail()
            recoveries.append(round(_stored_again(slot), 1))
        to_source.refusing = True
        to_source.cut()
        slot.says("disconnected")
        workload.more(3)
        to_source.refusing = False
        recoveries.append(round(_stored_again(slot), 1))
    slot.caught_up()

    print(f"seconds to store again after cuts on the way to the source: {recoveries}")
    assert_true_record(slot)
    assert len(slot.incarnations()) == 1
    assert slot.events("disconnected")


@pytest.mark.long
def test_a_network_that_cuts_and_half_closes_on_the_way_to_the_store(
    source: SourceDatabase, receive: Receive, to_store: Proxy
) -> None:
    slot = receive(source)
    recoveries = []
    with Workload(source) as workload:
        for fail in (to_store.cut, to_store.half_close, to_store.cut):
            workload.more(5)
            fail()
            recoveries.append(round(_stored_again(slot), 1))
        to_store.refusing = True
        to_store.cut()
        workload.more(3)
        to_store.refusing = False
        recoveries.append(round(_stored_again(slot), 1))
    slot.caught_up()

    print(f"seconds to store again after cuts on the way to the store: {recoveries}")
    assert_true_record(slot)
    slot.says("store", "lost")
    slot.end()


@pytest.mark.long
def test_a_slow_network_delays_and_loses_nothing(
    source: SourceDatabase, receive: Receive, to_source: Proxy, to_store: Proxy
) -> None:
    slot = receive(source, dsn=to_source.dsn(source.dsn))
    for direction in (to_source.to_server, to_source.to_client, to_store.to_server):
        direction.delay_seconds = 0.03
    with Workload(source) as workload:
        workload.more(40)
    slot.caught_up()

    assert_true_record(slot)
    assert slot.events("disconnected") == []
    slot.end()


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(True, id="both ways", marks=pytest.mark.long),
        pytest.param(False, id="only what comes"),
    ],
)
def test_a_source_that_vanishes_without_a_word_is_given_up_in_time(
    source: SourceDatabase, receive: Receive, to_source: Proxy, whole: bool
) -> None:
    slot = receive(source, dsn=to_source.dsn(source.dsn), start=False)
    slot.start(**IMPATIENT)
    slot.streaming()
    source.run("INSERT INTO t VALUES (1, 1, '')")
    slot.caught_up()
    if whole:
        to_source.freeze()
    else:
        to_source.to_client.hold()
    frozen_at = time.monotonic()
    source.run("INSERT INTO t VALUES (2, 2, 'while it is gone')")
    slot.says("disconnected")
    noticed = time.monotonic() - frozen_at
    to_source.cut()  # the host is back, and knows nothing of its former connections
    to_source.thaw()
    _stored_again(slot)
    recovery = time.monotonic() - frozen_at
    slot.caught_up()

    print(f"source vanished: noticed after {noticed:.1f} s, stored again after {recovery:.1f} s")
    assert recovery <= VANISHED_SECONDS + RECOVERY_SECONDS
    assert_true_record(slot)


def test_a_store_that_vanishes_without_a_word_is_left_to_another_receiver_in_time(
    source: SourceDatabase, receive: Receive, store: CrashStore
) -> None:
    with Proxy(store.server.port) as proxy:
        slot = receive(source, start=False)
        store.port = proxy.port
        slot.start("cut off", **IMPATIENT)
        slot.streaming("cut off")
        source.run("INSERT INTO t VALUES (1, 1, '')")
        slot.caught_up()
        proxy.freeze()
        frozen_at = time.monotonic()
        store.port = 0
        slot.start("second", **IMPATIENT)
        with Workload(source, writers=1, pause_seconds=0.3) as workload:
            slot.streaming("second")
            _stored_again(slot)
            recovery = time.monotonic() - frozen_at
            workload.more(5)
            # The first receiver's pending writes get through after all, and must change nothing.
            proxy.thaw()
            workload.more(10)
        slot.caught_up()

        print(f"store vanished: stored again after {recovery:.1f} s")
        assert recovery <= VANISHED_SECONDS + RECOVERY_SECONDS
        assert_true_record(slot)
        assert slot.row()["lease_owner"] == "second"
        slot.end()
