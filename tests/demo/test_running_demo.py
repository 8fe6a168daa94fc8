"""What a running ``replview demo`` shows from outside; all of it of one run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.conftest import reachable_folder
from tests.demo.running_demo import RunningDemo

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kept_folder() -> Iterator[Path]:
    """Of the one demo."""
    yield from reachable_folder()


@pytest.fixture(scope="module")
def demo(kept_folder: Path) -> Iterator[RunningDemo]:
    """A quiet demo, ready."""
    with RunningDemo(kept_folder, "--no-workload") as running:
        running.wait_for("Ctrl-C stops everything")
        yield running


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
    pairs = (line.split("=", 1) for line in (demo.data / "secrets").read_text().splitlines())
    secrets = [
        (demo.data / "store.password").read_text(),
        (demo.data / "source.password").read_text(),
        *(value for _, value in pairs),
    ]
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert demo.end_with(signal.SIGINT) == 0
    logs = [path.read_bytes() for path in (demo.data / "logs").iterdir()]
    for secret in secrets:
        assert not any(secret.encode() in text for text in (*lines, *logs))
