"""The source's server restarts and crashes under load."""

import time
from collections.abc import Iterator

import pytest

from tests.crashes.truth import assert_true_record
from tests.support.copied_clusters import copied
from tests.support.crash_servers import Receive, fresh_source
from tests.support.source_databases import SOURCE_SETTINGS, SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow


@pytest.fixture
def source_16() -> Iterator[SourceDatabase]:
    """PostgreSQL 16, which moves a slot's confirmed position back when it restarts."""
    with copied(16, SOURCE_SETTINGS) as server:
        yield from fresh_source(server)


@pytest.fixture
def source_18(source: SourceDatabase) -> SourceDatabase:
    """PostgreSQL 18."""
    return source


def log_what_runs(source: SourceDatabase) -> None:
    """Make the server log its running transactions now instead of within 15 s.

    A transaction that a crash ended has no record of its end. The stream reports the end once the
    server has logged which transactions run.
    """
    source.run("SELECT pg_log_standby_snapshot()")


@pytest.mark.parametrize(
    ("version", "way"),
    [
        (18, "walsender"),
        pytest.param(16, "walsender", marks=pytest.mark.long),
        pytest.param(18, "sql", marks=pytest.mark.long),
        pytest.param(16, "sql", marks=pytest.mark.long),
    ],
)
def test_a_source_that_restarts_and_crashes_under_load_is_recorded_once(
    request: pytest.FixtureRequest, receive: Receive, version: int, way: str
) -> None:
    source = request.getfixturevalue(f"source_{version}")
    slot = receive(source, interface=way)
    recoveries = []
    with Workload(source) as workload:
        for mode in ("fast", "immediate"):
            workload.more(10)
            connected = len(slot.events("connected"))
            source.server.stop(mode=mode)
            source.server.start()
            back_at = time.monotonic()
            wait_for(
                lambda connected=connected: len(slot.events("connected")) > connected,
                what=slot.sentences(),
            )
            recoveries.append(round(time.monotonic() - back_at, 1))
            workload.more(5)
    log_what_runs(source)
    slot.caught_up()

    print(f"PostgreSQL {version}, {way}: seconds to live again {recoveries}")
    assert_true_record(slot)
    assert len(slot.incarnations()) == 1
    assert slot.transactions("prepared") == []
    assert len(slot.events("disconnected")) >= 2
    # The position and time at which a crash ended a transaction are unknown, which is not zero.
    aborted = slot.transactions("aborted")
    assert [t for t in aborted if t["commit_lsn"] == "0/0"] == []
    assert [t for t in aborted if t["ended_at"] and t["ended_at"].year == 2000] == []


def test_a_transaction_that_a_crash_of_the_source_ended_does_not_stay_open(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(source)
    session = source.connect()
    session.execute("BEGIN")
    session.execute("INSERT INTO t SELECT n, n, repeat('x', 300) FROM generate_series(1, 2000) n")
    wait_for(lambda: slot.transactions("streaming"))
    # Its changes must be on the disk to be sent again after the crash.
    source.run("SELECT pg_switch_wal()", "CHECKPOINT")
    source.server.stop(mode="immediate")
    session.close()
    source.server.start()
    slot.says("Connected again")
    wait_for(lambda: slot.transactions("discarded"))
    source.run("INSERT INTO t VALUES (1, 1, 'of the second try')")
    log_what_runs(source)
    slot.caught_up()

    assert_true_record(slot)
    assert [t["state"] for t in slot.transactions() if t["streamed"]] == ["discarded"]
