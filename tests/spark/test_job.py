"""An export in a process of its own: its lines, its end by signals, and no secret anywhere."""

import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from replview.runtime.failpoints import Point
from tests.spark.export_job import ROWS, ended
from tests.spark.export_job import job as job
from tests.support.digests import digests
from tests.support.failpoints import pause
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def paused_job(job, tmp_path) -> Callable[[Path], subprocess.Popen[bytes]]:
    """Return a function that starts a job and waits until it pauses in the middle of a file.

    The job goes on when ``tmp_path / "reached"`` is deleted.
    """
    reached = tmp_path / "reached"

    def start(root: Path) -> subprocess.Popen[bytes]:
        reached.unlink(missing_ok=True)
        process: subprocess.Popen[bytes] = job(root, points={Point.IN_EXPORT_FILE: pause(reached)})
        wait_for(reached.exists)
        assert list(root.rglob("_writing-*.parquet-*"))
        return process

    return start


def test_it_survives_a_kill_and_is_cancelled_cleanly(job, paused_job, store_dsn, tmp_path) -> None:
    root = tmp_path / "out"
    process = paused_job(root)
    process.kill()
    process.communicate()
    assert not list(root.rglob("_SUCCESS"))

    process = paused_job(root)
    process.send_signal(signal.SIGTERM)
    (tmp_path / "reached").unlink()
    status, lines = ended(process, store_dsn)
    assert [line["event"] for line in lines[:1]] == ["progress"]
    assert (status, lines[-1:]) == (3, [{"event": "cancelled"}])
    assert [path for path in root.rglob("*") if path.is_file()] == []

    status, lines = ended(job(root), store_dsn)
    assert (status, lines[-1]["event"]) == (0, "done")
    manifest = lines[-1]["manifest"]
    assert manifest.pop("written") == [manifest["commit_seq"]]
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
