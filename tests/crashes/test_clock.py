"""The clock of the receiver's host is set forward and back while it receives (libfaketime)."""

import datetime as dt
from pathlib import Path

import pytest

from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
PLACES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib")
#: One after another, each relative to the true time.
JUMPS = ("+3h", "-2h", "+40d", "-3d", "+0", "-400d", "+1d", "+0")


@pytest.fixture
def fake_clock(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file that says how far off the clock is, and what a process needs to obey it."""
    found = [path for path in PLACES if Path(path, "faketime/libfaketime.so.1").exists()]
    if not found:
        pytest.skip("libfaketime is not installed (Debian's libfaketime)")
    offset = tmp_path / "clock"
    offset.write_text("+0\n")
    return offset, {
        "LD_PRELOAD": f"{found[0]}/faketime/libfaketime.so.1",
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        # The monotonic clock cannot be set, by nobody.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@pytest.mark.long
def test_a_clock_that_jumps_by_hours_and_days_loses_nothing(
    source: SourceDatabase, receive: Receive, fake_clock: tuple[Path, dict[str, str]]
) -> None:
    offset, environment = fake_clock
    slot = receive(source, start=False)
    slot.start(**environment)
    slot.streaming()
    for number, jump in enumerate(JUMPS):
        offset.write_text(f"{jump}\n")
        for row in (2 * number, 2 * number + 1):
            source.run(f"INSERT INTO t VALUES ({row}, {number}, '')")
        slot.caught_up()

    assert_true_record(slot)
    assert slot.events("disconnected", "problem") == [], slot.sentences()
    assert slot.row()["epoch"] == 1, "the lease goes by the store's clock"


@pytest.mark.long
@pytest.mark.parametrize("offset_at_start", ["-60d", "+60d"])
def test_a_receiver_that_starts_with_a_wrong_clock_stores_everything(
    source: SourceDatabase,
    receive: Receive,
    fake_clock: tuple[Path, dict[str, str]],
    offset_at_start: str,
) -> None:
    offset, environment = fake_clock
    slot = receive(source)
    source.run("INSERT INTO t VALUES (1, 1, 'by the true clock')")
    slot.caught_up()
    slot.receivers[0].kill()
    offset.write_text(f"{offset_at_start}\n")
    # The killed one's lease runs out by the store's clock, whatever ours says.
    slot.start("second", **environment)
    slot.streaming("second")
    source.run("INSERT INTO t VALUES (2, 2, 'by the wrong one')")
    slot.caught_up()
    slot.receivers[-1].kill()
    slot.free_lease()
    slot.start("third")
    slot.streaming("third")
    source.run("INSERT INTO t VALUES (3, 3, 'by the true one again')")
    slot.caught_up()

    assert_true_record(slot)
    assert [t["inserts"] for t in slot.transactions("committed")] == [1, 1, 1]


def test_an_open_transaction_grows_through_a_jump_of_the_clock(
    source: SourceDatabase, receive: Receive, fake_clock: tuple[Path, dict[str, str]]
) -> None:
    offset, environment = fake_clock
    slot = receive(source, start=False)
    slot.start(**environment)
    slot.streaming()
    rows = "INSERT INTO t SELECT n, n, repeat('x', 200) FROM generate_series(%s::int, %s::int) n"
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(rows, [1, 1000])
        wait_for(lambda: slot.transactions("streaming"))
        offset.write_text("-30d\n")
        session.execute(rows, [1001, 2000])
        source.run("INSERT INTO t VALUES (0, 0, 'meanwhile')")
        wait_for(lambda: slot.transactions("committed"))
        offset.write_text("+30d\n")
        session.execute("COMMIT")
    slot.caught_up()

    assert_true_record(slot)
    assert [t["inserts"] for t in slot.transactions("committed")] == [1, 2000]


def test_the_store_knows_when_a_lease_runs_out(
    source: SourceDatabase, receive: Receive, fake_clock: tuple[Path, dict[str, str]]
) -> None:
    """A live receiver keeps its slot from one whose clock is a day ahead."""
    offset, environment = fake_clock
    slot = receive(source)
    offset.write_text("+1d\n")
    other = slot.start("ahead", **environment)
    for row in range(10):
        source.run(f"INSERT INTO t VALUES ({row}, 0, '')")
        slot.caught_up()

    assert slot.row()["lease_owner"] == "first"
    assert other.running
    heartbeat = slot.row()["heartbeat_at"]
    assert abs(dt.datetime.now(dt.UTC) - heartbeat) < dt.timedelta(minutes=1)
