"""A source that fails over to a promoted standby with a synchronised slot (PostgreSQL 17, 18)."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.received_slots import ReceivedSlot
from tests.support.source_databases import SourceDatabase
from tests.support.standby import PHYSICAL_SLOT, Pair
from tests.support.waiting import wait_for
from tests.support.workload import TABLES, Workload

pytestmark = [pytest.mark.slow, pytest.mark.pg(17)]
PREPARED = "BEGIN; INSERT INTO t VALUES ({}, {}, ''); PREPARE TRANSACTION '{}'"


@pytest.fixture
def pair_of(source_version: int) -> Iterator[Callable[..., Pair]]:
    """Makes a primary with its standby; both are gone with the test."""
    pairs: list[Pair] = []

    def make(**settings: str) -> Pair:
        pairs.append(Pair(source_version, **settings).__enter__())
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.__exit__()


def _received(pair: Pair, receive: Receive, dsn_of: Callable[[str], str]) -> ReceivedSlot:
    """A slot of the primary that its standby has, too."""
    pair.primary.create_database("shop")
    source = SourceDatabase(pair.primary, "shop")
    source.run(*TABLES)
    slot = receive(source, dsn=dsn_of("shop"), failover=True)
    source.run("INSERT INTO t VALUES (1, 1, 'first')")
    pair.slot_is_synced(slot.name)
    slot.caught_up()
    return slot


def test_the_record_goes_on_without_a_gap_at_the_promoted_standby(
    pair_of: Callable[..., Pair], receive: Receive
) -> None:
    pair = pair_of(synchronized_standby_slots=PHYSICAL_SLOT)
    slot = _received(pair, receive, pair.either_dsn)
    source = slot.source
    for number, gid in ((2, "over"), (3, "undone")):
        source.run(PREPARED.format(number, number, gid))
    wait_for(lambda: len(slot.transactions("prepared")) == 2)
    with Workload(source) as workload:
        workload.more(20)
        source.server = pair.fail_over()
        failed_over_at = time.monotonic()
        wait_for(lambda: len(slot.incarnations()) == 2, what=slot.sentences())
        slot.streaming()
        recovery = time.monotonic() - failed_over_at
        workload.more(20)
        source.run("COMMIT PREPARED 'over'", "ROLLBACK PREPARED 'undone'")
    slot.caught_up()

    print(f"seconds to live again after a failover: {recovery:.1f}")
    assert_true_record(slot)
    assert [incarnation["timeline"] for incarnation in slot.incarnations()] == [1, 2]
    assert slot.events("gap") == []
    ended = {t["gid"]: t["state"] for t in slot.transactions() if t["gid"] in ("over", "undone")}
    assert ended == {"over": "committed", "undone": "rolled back"}
    assert slot.transactions("prepared") == []
    slot.says("failed over", "nothing is missing")


def test_a_standby_that_lagged_behind_the_record_is_said_to_lack_what_it_never_had(
    pair_of: Callable[..., Pair], receive: Receive
) -> None:
    pair = pair_of()
    slot = _received(pair, receive, pair.primary.dsn)
    source = slot.source
    source.run(PREPARED.format(2, 2, "known to both"))
    source.run(PREPARED.format(7, 7, "ended only by the lost"))
    wait_for(lambda: len(slot.transactions("prepared")) == 2)
    pair.slot_is_synced(slot.name)
    pair.standby_catches_up()
    assert pair.standby is not None
    pair.standby.stop()
    for number in (3, 4, 5):
        source.run(f"INSERT INTO t VALUES ({number}, 0, 'lost with the primary')")
    source.run(
        PREPARED.format(6, 6, "lost with the primary"), "COMMIT PREPARED 'ended only by the lost'"
    )
    slot.caught_up()
    wait_for(lambda: len(slot.transactions("prepared")) == 2)

    source.server = pair.fail_over()
    slot.point_at(source)
    wait_for(lambda: len(slot.incarnations()) == 2, what=slot.sentences())
    slot.streaming()
    for number in (3, 4):
        source.run(f"INSERT INTO t VALUES ({number}, 1, 'of the second incarnation')")
    source.run("COMMIT PREPARED 'known to both'", "COMMIT PREPARED 'ended only by the lost'")
    slot.caught_up()

    slot.says("4 transactions", "never had")
    found = [(t["incarnation"], t["commit_seq"], t["gid"]) for t in slot.transactions("committed")]
    both = "ended only by the lost"
    assert found[:5] == [*((1, n, None) for n in range(1, 5)), (1, 5, both)]
    assert found[5:] == [(2, 1, None), (2, 2, None), (2, 3, "known to both"), (2, 4, both)]
    # Each incarnation tells what it did: to the promoted server it was still only prepared.
    told = [t for t in slot.transactions("committed") if t["gid"] == both]
    assert [t["inserts"] for t in told] == [1, 1]
    rows = "SELECT new->>'n' AS n FROM change WHERE transaction_id = %s"
    assert [[row["n"] for row in slot.store.rows(rows, [t["id"]])] for t in told] == [["7"], ["7"]]
    assert [t["gid"] for t in slot.transactions("unknown")] == ["lost with the primary"]
    assert slot.transactions("prepared") == [], "nothing stays prepared that nobody can end"
