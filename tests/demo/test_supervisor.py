"""The process manager, with programs that do next to nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replview.runtime.data_folder import DataFolder
from replview.runtime.machine import end_marked_processes, is_running, marked_processes
from replview.runtime.supervisor import CODE_FOLDER, ProcessWatch, Program, Supervisor

pytestmark = pytest.mark.slow

#: Says when it is asked to stop, so that the order can be read.
_SLEEPER = """
import signal, sys, time
def end(number, frame):
    print('ended', time.time(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print('100% up', flush=True)
time.sleep(600)
"""


def sleeper(script: Path, name: str, priority: int) -> Program:
    script.write_text(_SLEEPER)
    return Program(name=name, argv=[sys.executable, str(script)], priority=priority)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    folder = DataFolder(tmp_path / "data")
    folder.create()
    folder.acquire("http://127.0.0.1:1/")
    script = tmp_path / "50% of a sleeper.py"
    programs = [sleeper(script, "server", 1), sleeper(script, "reader", 2)]
    made = Supervisor(folder, programs, dict(os.environ))
    made.launch()
    yield made
    made.end()
    folder.release()


def until(true: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def start(supervisor: Supervisor) -> dict[str, int]:
    supervisor.start(["server", "reader"])
    until(lambda: all(supervisor.last_lines(name) for name in ("server", "reader")))
    return {state.name: state.pid for state in supervisor.states()}


def test_programs_run_when_they_are_started(supervisor: Supervisor) -> None:
    assert all(state.is_gone for state in supervisor.states())
    pids = start(supervisor)
    assert all(is_running(pid) for pid in pids.values())
    assert supervisor.last_lines("server") == ["100% up"]


def test_it_writes_nothing_to_the_terminal(supervisor: Supervisor) -> None:
    assert (supervisor.folder.logs / "supervisord.out").read_text() == ""


def test_ending_it_stops_readers_before_servers(supervisor: Supervisor) -> None:
    pids = start(supervisor)
    supervisor.end()
    ended = {name: float(supervisor.last_lines(name)[-1].split()[1]) for name in pids}
    assert ended["reader"] < ended["server"]
    assert not marked_processes(supervisor.folder.path)


def test_a_killed_program_comes_back_and_is_spoken_of(supervisor: Supervisor) -> None:
    pids = start(supervisor)
    watch = ProcessWatch(supervisor)
    assert list(watch.changes()) == []
    os.kill(pids["reader"], signal.SIGKILL)
    said: list[str] = []

    def spoken_of() -> bool:
        said.extend(watch.changes())
        return bool(said)

    until(spoken_of)
    assert f"reader (process {pids['reader']}) ended" in said[0]
    assert str(supervisor.log_path("reader")) in said[0]
    until(lambda: {state.name: state.pid for state in supervisor.states()}["reader"])


def test_what_a_killed_supervisord_left_is_found_and_ended(supervisor: Supervisor) -> None:
    pids = start(supervisor)
    own = int((supervisor.folder.run / "supervisord.pid").read_text())
    os.kill(own, signal.SIGKILL)
    until(lambda: not supervisor.is_alive())
    assert sorted(marked_processes(supervisor.folder.path)) == sorted(pids.values())
    assert end_marked_processes(supervisor.folder.path, own) == 2
    assert not any(is_running(pid) for pid in pids.values())


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(CODE_FOLDER)!r})
from replview.runtime.data_folder import DataFolder
from replview.runtime.supervisor import Program, Supervisor
folder = DataFolder({str(tmp_path / "data")!r})
folder.create()
sleep = Program(name="sleep", argv=["/bin/sleep", "600"], priority=1)
supervisor = Supervisor(folder, [sleep], dict(os.environ))
supervisor.launch()
supervisor.start(["sleep"])
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    until(lambda: not marked_processes(tmp_path / "data"), seconds=60)
    assert not (tmp_path / "data" / "run" / "supervisor.sock").exists()
    # A killed process cannot remove its socket's folder: the next start does.
    following = DataFolder(tmp_path / "data")
    following.acquire("http://127.0.0.1:1/")
    following.release()
    assert not list((tmp_path / "data" / "run").glob("socket-folder"))
