"""Failpoints in a test: armed for a block of it, or for the processes that it starts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from replview.runtime import failpoints
from replview.runtime.failpoints import FailAction, Point


def environment(points: Mapping[Point, str]) -> dict[str, str]:
    """Return the variables that arm these points of a process."""
    armed = ",".join(f"{point}={action}" for point, action in points.items())
    return {"REPLVIEW_TEST": "1", "REPLVIEW_FAILPOINTS": armed}


def pause(file: Path, *, time: int = 1) -> str:
    """Return the action that pauses a process the Nth time that it reaches a point."""
    return f"pause:{file}@{time}"


@contextmanager
def armed(point: Point, action: FailAction) -> Iterator[None]:
    """Arm a point of this process for the block."""
    former = failpoints.actions
    failpoints.actions = {**(former or {}), point: action}
    try:
        yield
    finally:
        failpoints.actions = former
