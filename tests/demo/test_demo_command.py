"""``replview demo`` from outside: what it says, what it leaves, how it survives being killed."""

import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from replview.runtime.machine import MARK, is_running, marked_processes
from tests.demo.conftest import reachable_folder, shared_memory, shared_memory_of
from tests.support.processes import processes_naming
from tests.support.running_demo import RunningDemo, wait_until_over

pytestmark = pytest.mark.slow

READY = "Ctrl-C stops everything"


@pytest.fixture(scope="module")
def used_folder() -> Iterator[Path]:
    """A folder that goes from test to test: the first one has it filled."""
    yield from reachable_folder()


def read_pairs(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


@dataclass(frozen=True, kw_only=True)
class FirstRun:
    """The demo that filled the folder, which Ctrl-C stopped, and what belonged to it until then."""

    env: dict[str, str]
    pids: list[int]
    shared_memory: set[str]
    output: str
    status: int


@pytest.fixture(scope="module")
def first_run(used_folder: Path) -> FirstRun:
    """The first demo on the folder, which has a workload."""
    with RunningDemo(used_folder, "--rate", "5") as demo:
        demo.wait_for(READY)
        with urllib.request.urlopen(f"http://127.0.0.1:{demo.port}/") as answer:
            assert answer.status == 200
        env = used_folder / "env"
        assert env.stat().st_mode & 0o777 == 0o600
        return FirstRun(
            env=read_pairs(env),
            pids=[*demo.server_pids(), *marked_processes(used_folder)],
            shared_memory=shared_memory_of(demo.server_pids()),
            status=demo.end_with(signal.SIGINT),
            output=demo.output,
        )


@pytest.fixture(scope="module")
def demo(used_folder: Path, first_run: FirstRun) -> Iterator[RunningDemo]:
    """A quiet demo, ready; the last test that takes it kills it."""
    with RunningDemo(used_folder, "--no-workload") as running:
        running.wait_for(READY)
        yield running


def secrets_of(folder: Path) -> list[str]:
    """Whatever must be in no command line and no log."""
    passwords = [(folder / f"{name}.password").read_text() for name in ("store", "source")]
    return [*passwords, *read_pairs(folder / "secrets").values()]


def assert_none_in(lines: list[bytes], secrets: list[str]) -> None:
    assert lines
    assert not [secret for secret in secrets if any(secret.encode() in line for line in lines)]


def logs_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in (folder / "logs").iterdir()]


def test_it_stops_without_a_trace(used_folder: Path, first_run: FirstRun) -> None:
    assert first_run.status == 0
    assert "stopping" in first_run.output
    assert not any(is_running(pid) for pid in first_run.pids)
    assert processes_naming(used_folder) == []
    assert not [path for path in used_folder.rglob("*") if path.is_socket()]
    assert not (used_folder / "env").exists()
    assert first_run.shared_memory
    assert not first_run.shared_memory & shared_memory()
    assert_none_in(logs_of(used_folder), secrets_of(used_folder))


def test_a_busy_port_is_one_line_with_the_remedy(folder: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with RunningDemo(folder, port=port) as demo:
            assert demo.process.wait(timeout=20) == 1
    assert f"port {port} on 127.0.0.1 is in use" in demo.output
    assert f"--port {port + 1}" in demo.output
    assert "Traceback" not in demo.output
    assert not (folder / "store").exists()


def test_stopping_while_it_starts_leaves_nothing(folder: Path) -> None:
    with RunningDemo(folder) as demo:
        demo.wait_for("preparing the store and the shop")
        assert demo.end_with(signal.SIGINT) == 0
    assert processes_naming(folder) == []
    assert "Traceback" not in demo.output


def test_it_goes_on_with_its_data(first_run: FirstRun, demo: RunningDemo) -> None:
    env = read_pairs(demo.data / "env")
    for name in ("REPLVIEW_SECRET_KEY", "REPLVIEW_STORE_URL", "REPLVIEW_DEMO_SOURCE_URL"):
        assert env[name] == first_run.env[name]
    login = read_pairs(demo.data / "secrets")["REPLVIEW_LOGIN_PASSWORD"]
    assert login in first_run.output
    assert login in demo.output


def test_a_second_demo_on_the_folder_is_told_of_the_first(demo: RunningDemo) -> None:
    with RunningDemo(demo.data) as second:
        assert second.process.wait(timeout=20) == 1
    assert f"already runs on {demo.data} at http://127.0.0.1:{demo.port}/" in second.output
    assert f"kill {demo.process.pid}" in second.output
    assert demo.process.poll() is None


def test_a_process_that_dies_is_named_and_started_again(demo: RunningDemo) -> None:
    demo.wait_for("stored")  # the watch has begun
    redis = int((demo.data / "redis" / "redis.pid").read_text())
    os.kill(redis, signal.SIGKILL)
    demo.wait_for(f"redis (process {redis}) ended")
    demo.wait_for(str(demo.data / "logs" / "redis.log"))


def test_secrets_are_in_no_command_line_and_no_log(demo: RunningDemo) -> None:
    secrets = secrets_of(demo.data)
    assert_none_in([path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")], secrets)
    assert_none_in(logs_of(demo.data), secrets)


def test_a_killed_demo_takes_everything_with_it(demo: RunningDemo) -> None:
    pids = demo.server_pids()
    demo.end_with(signal.SIGKILL)
    wait_until_over(demo.data, pids)


@pytest.mark.long
def test_it_bears_impatience(used_folder: Path) -> None:
    with RunningDemo(used_folder, "--no-workload") as demo:
        demo.wait_for(READY)
        pids = demo.server_pids()
        demo.process.send_signal(signal.SIGINT)
        demo.wait_for("stopping")
        demo.process.send_signal(signal.SIGINT)
        assert demo.end_with(signal.SIGINT) == 0
    wait_until_over(used_folder, pids, seconds=0)


@pytest.mark.long
def test_what_outlived_even_supervisord_is_ended_by_the_next_start(used_folder: Path) -> None:
    with RunningDemo(used_folder, "--no-workload") as demo:
        demo.wait_for(READY)
        supervisord = int((used_folder / "run" / "supervisord.pid").read_text())
        left = [pid for pid in marked_processes(used_folder) if pid != supervisord]
        left += demo.server_pids()
        os.kill(supervisord, signal.SIGSTOP)  # so that it cannot do its duty
        demo.end_with(signal.SIGKILL)
        os.kill(supervisord, signal.SIGKILL)
    with RunningDemo(used_folder, "--no-workload") as again:
        again.wait_for(READY)
        assert "did not stop in order the last time: cleaned up" in again.output
        assert not any(is_running(pid) for pid in left), MARK
        assert again.end_with(signal.SIGTERM) == 0
