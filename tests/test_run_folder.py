"""A test run that is killed leaves servers behind: the next run stops them."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from replview.runtime.servers.postmaster import postmaster_pid
from tests.support.run_folder import RUN_FOLDER, remove_dead_runs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
RUN = """
import subprocess, sys, time
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.redis import EmbeddedRedis
from tests.support.run_folder import run_folder

with run_folder() as folder, EmbeddedPostgres.temporary() as server, EmbeddedRedis.temporary():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(folder, server.data_dir, child.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder for temporary files, which is empty in the end."""
    # Like the system's folder for temporary files, it is open to the servers' user.
    folder = Path(tempfile.mkdtemp(dir=os.environ[RUN_FOLDER]))
    folder.chmod(0o1777)
    yield folder
    assert list(folder.iterdir()) == []


def start(code: str, shared: Path) -> subprocess.Popen[str]:
    """Start a run that is not part of this one."""
    variables = {name: value for name, value in os.environ.items() if name != RUN_FOLDER}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env={**variables, "TMPDIR": str(shared)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def run(shared):
    """Start a run with servers; return its process, its folder, a data folder and a child's pid."""
    process = start(RUN, shared)
    assert process.stdout is not None
    folder, data, child = process.stdout.readline().split()
    yield process, Path(folder), Path(data), int(child)
    process.kill()
    process.wait()
    remove_dead_runs(shared)
    process.communicate()


def processes_of(folder: Path) -> list[str]:
    """Return the names of all processes whose arguments, or the folder they work in, are there."""
    return [
        process.info["name"]
        for process in psutil.process_iter(["name", "cmdline", "cwd"])
        if str(folder) in " ".join([*(process.info["cmdline"] or []), process.info["cwd"] or ""])
    ]


def test_the_next_run_stops_what_a_killed_run_left(run) -> None:
    process, folder, data, child = run
    process.send_signal(signal.SIGKILL)
    process.wait()
    server = postmaster_pid(data)
    assert server is not None
    assert psutil.pid_exists(child)
    assert {"postgres", "redis-server"} <= set(processes_of(folder))

    remove_dead_runs(folder.parent)
    assert not folder.exists()
    assert processes_of(folder) == []
    assert not psutil.pid_exists(child)
    assert not psutil.pid_exists(server)


def test_a_run_that_lives_is_left_alone(run) -> None:
    process, folder, data, child = run
    remove_dead_runs(folder.parent)
    assert process.poll() is None
    assert folder.exists()
    assert postmaster_pid(data) is not None
    assert psutil.pid_exists(child)


def test_an_interrupted_run_stops_its_own(run) -> None:
    process, folder, _, child = run
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert not folder.exists()
    deadline = time.monotonic() + 10
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(folder) == []


def test_multiprocessing_removes_its_own_folder_first(shared) -> None:
    code = """
from multiprocessing.util import get_temp_dir
from tests.support.run_folder import run_folder

with run_folder() as folder:
    print(get_temp_dir().startswith(f"{folder}/"))
"""
    assert start(code, shared).communicate() == ("True\n", "")
