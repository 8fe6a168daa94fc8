"""Failpoints: inactive unless a test arms them, and refused everywhere else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from replview.runtime import failpoints
from replview.runtime.failpoints import FailpointReached, Point, failpoint, read_failpoints
from tests.support.failpoints import armed, environment
from tests.support.waiting import wait_for

_ROOT = Path(__file__).parent.parent
_REACH = "from replview.runtime.failpoints import *; failpoint(Point.IN_CLAIM); print('passed')"


def _start(code: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=_ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_no_point_is_armed_unless_a_test_arms_it() -> None:
    assert failpoints.actions is None
    for point in Point:
        failpoint(point)


@pytest.mark.parametrize(
    "text",
    ["nowhere=kill", "in_claim", "in_claim=", "in_claim=sleep", "in_claim=pause:",
     "in_claim=kill@0", "in_claim=kill@x", "in_claim=kill,,"],
)  # fmt: skip
def test_what_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="REPLVIEW_FAILPOINTS"):
        read_failpoints({"REPLVIEW_TEST": "1", "REPLVIEW_FAILPOINTS": text})


@pytest.mark.parametrize("flag", ["REPLVIEW_TEST", "REPLVIEW_DEBUG"])
def test_they_are_refused_without_a_flag(flag: str) -> None:
    asked = {"REPLVIEW_FAILPOINTS": "in_claim=raise"}
    assert read_failpoints({**asked, flag: "1"})
    for unset in ({}, {flag: "0"}, {flag: ""}):
        with pytest.raises(ValueError, match="for tests of replview only"):
            read_failpoints({**asked, **unset})


def test_no_command_starts_with_them_in_production() -> None:
    variables = {"REPLVIEW_FAILPOINTS": "in_claim=kill", "REPLVIEW_TEST": "", "REPLVIEW_DEBUG": ""}
    command = _start("from replview.cli import main; import sys; sys.argv[1:] = ['check']; main()",
                     variables)  # fmt: skip
    _, said = command.communicate(timeout=120)
    assert command.returncode == 1
    assert said.startswith("replview: REPLVIEW_FAILPOINTS stops processes")


def test_a_process_is_killed_at_a_point() -> None:
    process = _start(_REACH, environment({Point.IN_CLAIM: "kill"}))
    assert process.communicate(timeout=120) == ("", "")
    assert process.returncode == -signal.SIGKILL


def test_a_process_is_held_at_a_point_until_its_file_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "reached"
    process = _start(_REACH, environment({Point.IN_CLAIM: f"pause:{file}"}))
    wait_for(file.exists)
    assert process.poll() is None
    file.unlink()
    assert process.communicate(timeout=120) == ("passed\n", "")


def test_a_point_may_act_the_nth_time_only() -> None:
    actions = read_failpoints(environment({Point.IN_CLAIM: "raise@3"}))
    assert actions is not None
    actions[Point.IN_CLAIM]()
    actions[Point.IN_CLAIM]()
    with pytest.raises(FailpointReached):
        actions[Point.IN_CLAIM]()
    actions[Point.IN_CLAIM]()


def test_a_point_is_armed_for_a_block() -> None:
    reached: list[str] = []
    with armed(Point.IN_CLAIM, lambda: reached.append("claim")):
        with armed(Point.BEFORE_COPY, lambda: reached.append("copy")):
            failpoint(Point.IN_CLAIM)
            failpoint(Point.BEFORE_COPY)
        failpoint(Point.BEFORE_COPY)
    assert reached == ["claim", "copy"]
    assert failpoints.actions is None
