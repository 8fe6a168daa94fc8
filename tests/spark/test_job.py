"""An export in a process of its own: its lines, its end by signals, and no secret anywhere."""

import contextlib
import resource
import signal
import time
from pathlib import Path

import orjson
import pytest

from tests.spark.export_job import ROWS, ended
from tests.spark.export_job import job as job
from tests.support.digests import digests

pytestmark = pytest.mark.slow


def wait_for_half(root: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in root.rglob("_writing-*.parquet-*")):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_it_survives_a_kill_and_is_cancelled_cleanly(job, store_dsn, tmp_path) -> None:
    root = tmp_path / "out"
    process = job(root)
    with contextlib.suppress(FileNotFoundError):
        wait_for_half(root)
    process.kill()
    process.communicate()
    assert not list(root.rglob("_SUCCESS"))

    process = job(root)
    assert process.stdout is not None
    assert orjson.loads(process.stdout.readline())["event"] == "progress"
    process.send_signal(signal.SIGTERM)
    status, lines = ended(process, store_dsn)
    assert (status, lines[-1:]) == (3, [{"event": "cancelled"}])
    assert [path for path in root.rglob("*") if path.is_file()] == []

    status, lines = ended(job(root), store_dsn)
    assert (status, lines[-1]["event"]) == (0, "done")
    manifest = lines[-1]["manifest"]
    assert (manifest["rows"], manifest["transactions"]) == (ROWS, 1)
    [last] = [line for line in lines if line["event"] == "progress"][-1:]
    assert (last["rows"], last["files"]) == (last["total_rows"], last["total_files"])
    assert last["bytes"] == manifest["bytes"]
    status, lines = ended(job(root), store_dsn)
    assert lines[-1]["manifest"] == manifest
    assert sum(path.endswith(".parquet") for path in digests(root)) == len(manifest["files"])


def test_a_full_disk_says_what_to_mend(job, store_dsn, tmp_path) -> None:
    limit = 100_000

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    status, lines = ended(job(tmp_path / "out", preexec_fn=no_large_files), store_dsn)
    assert status == 1
    assert lines[-1]["problem"] == "files may not grow that large there"
    assert "ulimit -f" in lines[-1]["remedy"]
    assert not list((tmp_path / "out").rglob("_writing-*"))
