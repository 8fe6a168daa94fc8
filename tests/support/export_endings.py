"""An export that ends in the middle: killed, or on a full disk. Loads nothing of Django."""

import errno
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from replview.parquet.slices import Slice
from replview.parquet.writing import filesystems
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark import export_job

#: A step at which some files of a small slice are written, and not all.
IN_FILES = 7
#: Its processes have no threads when they begin.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def write(dsn: str, part: Slice, root: Path, *left: Slice, **more: object) -> None:
    """Export as the job does; ``left``: the slices of runs that are known to have ended."""
    order = {"abandoned": [each.to_json() for each in left], **more}
    target = Target.of(str(root))
    export_job._write(order, part, target, dsn=dsn, cancelled=lambda: False)


@contextmanager
def at_step(number: int, fault: Callable[[], None], writing: str) -> Iterator[None]:
    """The fault takes the place of the step: of a file that is written, or one that is deleted."""
    left = iter(range(number, -1, -1))

    def before(former: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any) -> Any:
            if next(left, -1) == 0:
                fault()
            return former(*words)

        return step

    half = filesystems.LocalHalf
    with (
        mock.patch.object(half, writing, before(getattr(half, writing))),
        mock.patch.object(Target, "delete", before(Target.delete)),
    ):
        yield


def _killed_at(dsn: str, part: Slice, root: Path, number: int) -> None:
    with at_step(number, lambda: os.kill(os.getpid(), signal.SIGKILL), "finish"):
        write(dsn, part, root)


def killed(dsn: str, part: Slice, root: Path, number: int) -> bool:
    """Return whether the run was killed at this step; otherwise it has fewer."""
    process = _processes.Process(target=_killed_at, args=(dsn, part, root, number))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def disk_full(dsn: str, part: Slice, root: Path, number: int) -> bool:
    """The same of a run that finds no space at this step."""

    def full() -> None:
        raise OSError(errno.ENOSPC, "no space")

    try:
        with at_step(number, full, "open"):
            write(dsn, part, root)
    except (TargetProblem, OSError):
        return True
    return False
