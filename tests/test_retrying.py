"""A failed test runs once more: unstable ones are named, and broken ones stay failures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.retrying import MOST_FAILURES, UNSTABLE_TESTS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PASSES_SECOND = """
from pathlib import Path

def test_unstable():
    marker = Path(__file__).with_name("ran")
    first = not marker.exists()
    marker.touch()
    assert not first

def test_stable():
    with open(Path(__file__).with_name("log"), "a") as file:
        file.write("ran\\n")
"""


def run(folder: Path, module: str, *options: str) -> tuple[int, str, list[str]]:
    """Return the exit status, the output and the names of unstable tests."""
    (folder / "test_it.py").write_text(module)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    long\n")
    unstable = folder / "unstable"
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.retrying", str(folder), "-n", "2",
         "-c", str(folder / "pytest.ini"), "-p", "no:django", "-p", "no:asyncio", *options],
        env={**os.environ, UNSTABLE_TESTS: str(unstable)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    names = unstable.read_text().splitlines() if unstable.exists() else []
    return done.returncode, done.stdout, names


def test_one_that_passes_the_second_time_is_named_and_the_rest_runs_once(tmp_path: Path) -> None:
    status, output, unstable = run(tmp_path, PASSES_SECOND)
    assert status == 0, output
    assert [name.rpartition("::")[2] for name in unstable] == ["test_unstable"]
    assert (tmp_path / "log").read_text() == "ran\n"


def test_one_of_a_share_runs_once_more_though_the_other_shares_are_not_collected(
    tmp_path: Path,
) -> None:
    long = "import pytest\npytestmark = pytest.mark.long\n"
    (tmp_path / "test_a.py").write_text(f"{long}def test_of_the_first_share(): assert False\n")
    plugin = ["-p", "tests.support.shares"]
    status, output, unstable = run(tmp_path, f"{long}{PASSES_SECOND}", *plugin, "--share", "2")
    assert status == 0, output
    assert [name.rpartition("::")[2] for name in unstable] == ["test_unstable"]


@pytest.mark.parametrize(
    ("module", "status"),
    [
        ("def test_broken(): assert False\n", 1),
        ("def test_stable(): pass\n", 0),
        ("import nothing_of_this_name\n", 2),
        ("", 5),
    ],
)
def test_what_no_second_run_mends_keeps_its_status(
    tmp_path: Path, module: str, status: int
) -> None:
    assert run(tmp_path, module)[::2] == (status, [])


def test_many_failures_are_not_tried_again(tmp_path: Path) -> None:
    tests = f"range({MOST_FAILURES + 1})"
    module = PASSES_SECOND.replace('"ran")', 'f"ran{number}")').replace(
        "def test_unstable():",
        f'@pytest.mark.parametrize("number", {tests})\ndef test_unstable(number):',
    )
    status, output, unstable = run(tmp_path, f"import pytest\n{module}")
    assert (status, unstable) == (1, [])
    assert "too many to try them again" in output
