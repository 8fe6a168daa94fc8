"""The store's disk is full: nothing is confirmed, nothing lost, and it goes on once there is room.

The disk is a small tmpfs, which only root may mount, and not in every container.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_user import server_user
from tests.crashes.truth import assert_true_record
from tests.support.copied_clusters import copy_cluster
from tests.support.crash_servers import Receive
from tests.support.crash_stores import CrashStore
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
SIZE_MB = 220
#: Left free when the disk is filled: the store takes a little more, then no more.
LEFT_BYTES = 2_000_000


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A folder on a disk of its own, small enough to fill."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a tmpfs")
    folder = Path(tempfile.mkdtemp(prefix="replview-small-disk-"))
    options = f"size={SIZE_MB}m,mode=711"
    mount = ["mount", "-t", "tmpfs", "-o", options, "replview-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        folder.rmdir()
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@pytest.fixture
def write_ahead_folder() -> Iterator[Path]:
    """A place for the store's WAL on the ordinary disk."""
    folder = Path(tempfile.mkdtemp(prefix="replview-wal-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def small_store(small_disk: Path, write_ahead_folder: Path) -> Iterator[CrashStore]:
    """A store whose tables, not whose WAL, are on the small disk: that disk full is an error a
    statement gets, while a WAL without room ends the whole server.
    """
    settings = {"max_wal_size": "64MB", "min_wal_size": "32MB", "autovacuum": "off"}
    copy_cluster(small_disk / "data", store=True)
    server = EmbeddedPostgres(small_disk / "data", settings=settings, fast=True)
    try:
        server.prepare()
        _move_wal(server.data_dir, write_ahead_folder / "wal")
        server.start()
        store = CrashStore.fresh(server)
        yield store
    finally:
        with contextlib.suppress(Exception):
            server.stop(mode="immediate")


def _move_wal(data: Path, place: Path) -> None:
    shutil.copytree(data / "pg_wal", place)
    shutil.rmtree(data / "pg_wal")
    (data / "pg_wal").symlink_to(place)
    if account := server_user():
        for path in (place, *place.rglob("*")):
            account.own(path)
        account.own(data / "pg_wal")


def _fill(disk: Path) -> Path:
    """Take what is free but a little."""
    ballast = disk / "ballast"
    free = shutil.disk_usage(disk).free
    with open(ballast, "wb") as file:
        for _ in range((free - LEFT_BYTES) // 1_000_000):
            file.write(b"\0" * 1_000_000)
    return ballast


def test_a_store_without_room_is_named_and_gets_everything_once_there_is(
    source: SourceDatabase, receive: Receive, small_store: CrashStore, small_disk: Path
) -> None:
    slot = receive(source, store=small_store)
    source.run("INSERT INTO t VALUES (1, 1, 'the table is known')")
    slot.caught_up()
    ballast = _fill(small_disk)
    for number in range(10):
        source.run(
            f"INSERT INTO t SELECT {number} * 10000 + n, n, repeat('x', 500) "
            "FROM generate_series(2, 2000) n"
        )
    # One look for all: between two tries the slot has no problem.
    row = wait_for(
        lambda: (row := slot.row())["problem_code"] == "store_full" and row, what=slot.sentences()
    )
    assert "full" in row["problem_cause"]
    assert row["problem_remedy"]
    assert slot.confirmed_lsn() <= slot.stored_lsn()
    # The source is none the worse for it: it takes writes, and keeps what was not confirmed.
    source.run("INSERT INTO t VALUES (-1, 0, 'meanwhile')")

    ballast.unlink()
    slot.caught_up()

    assert_true_record(slot)
    stored = slot.transactions("committed")
    assert [t["inserts"] for t in stored] == [1, *[1999] * 10, 1]
    slot.streaming()
    slot.says("full")
    slot.end()
