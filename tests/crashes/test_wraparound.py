"""Transaction ids wrap, and names of prepared transactions are used again."""

from collections.abc import Iterator

import pytest

from tests.crashes.truth import assert_true_record
from tests.crashes.wraparound import WRAP, about_to_wrap
from tests.support.crash_servers import Receive, fresh_source
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow
LEFT = 700
ROWS = "INSERT INTO t SELECT n, n, repeat('x', 200) FROM generate_series(%s::int, %s::int) n"


@pytest.fixture
def old_source() -> Iterator[SourceDatabase]:
    """A database on a cluster whose transaction ids are about to wrap."""
    server = about_to_wrap(LEFT)
    try:
        yield from fresh_source(server)
    finally:
        server.remove()


def _use_up(source: SourceDatabase, transactions: int) -> None:
    source.run(
        f"DO $$ BEGIN FOR n IN 1..{transactions} LOOP PERFORM pg_current_xact_id(); COMMIT; "
        "END LOOP; END $$"
    )


def test_transactions_across_the_wrap_are_stored_in_order(
    old_source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(old_source)
    old_source.run(
        "BEGIN; INSERT INTO t VALUES (1, 1, ''); PREPARE TRANSACTION 'over the wrap'",
        "BEGIN; INSERT INTO t VALUES (2, 2, ''); PREPARE TRANSACTION 'undone'",
    )
    with old_source.connect() as session:
        session.execute("BEGIN")
        session.execute("SAVEPOINT before")
        session.execute(ROWS, [1001, 2000])
        large = wait_for(lambda: slot.transactions("streaming"))[0]["xid"]
        with Workload(old_source, writers=1) as workload:
            workload.more(5)
            _use_up(old_source, LEFT)
            session.execute("SAVEPOINT after")
            session.execute(ROWS, [2001, 3000])
            session.execute("ROLLBACK TO after")
            session.execute(ROWS, [3001, 3500])
            workload.more(10)
        session.execute("COMMIT")
    old_source.run("COMMIT PREPARED 'over the wrap'", "ROLLBACK PREPARED 'undone'")
    slot.caught_up()

    assert_true_record(slot)
    committed = slot.transactions("committed")
    xids = [t["xid"] for t in committed if t["gid"] is None]
    assert max(xids) > WRAP - LEFT
    assert min(xids) < LEFT
    assert [t["inserts"] for t in committed if t["xid"] == large] == [1500]
    states = {t["gid"]: t["state"] for t in slot.transactions() if t["gid"]}
    assert (states["over the wrap"], states["undone"]) == ("committed", "rolled back")
    assert len(slot.events("wraparound")) == 1, slot.sentences()


def test_a_gid_used_again_at_once_and_later_names_different_transactions(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(source)
    prepare = "BEGIN; INSERT INTO t VALUES ({}, 0, ''); PREPARE TRANSACTION 'again'"
    source.run(prepare.format(1), "COMMIT PREPARED 'again'")
    source.run(prepare.format(2), "ROLLBACK PREPARED 'again'", prepare.format(3))
    wait_for(lambda: slot.transactions("prepared"))
    slot.receivers[0].kill()
    source.run("COMMIT PREPARED 'again'", prepare.format(4))
    slot.free_lease()
    slot.start("second")
    wait_for(lambda: slot.transactions("prepared") and len(slot.transactions()) == 4)
    source.run("ROLLBACK PREPARED 'again'", "INSERT INTO t VALUES (5, 0, '')")
    slot.caught_up()

    assert_true_record(slot)
    found = sorted(slot.transactions(), key=lambda t: t["xid"])
    assert [(t["gid"], t["state"]) for t in found] == [
        ("again", "committed"),
        ("again", "rolled back"),
        ("again", "committed"),
        ("again", "rolled back"),
        (None, "committed"),
    ]
