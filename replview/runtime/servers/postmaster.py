"""This module finds the server that runs in a cluster's folder.

Source: PostgreSQL, miscinit.c, ``CreateLockFile()``: the first line is the postmaster's pid.
"""

from contextlib import suppress
from pathlib import Path

from replview.runtime.machine import is_running


def postmaster_pid(data_dir: Path) -> int | None:
    """Return the pid of the server that runs in this folder; None where there is none."""
    pid = _pid_in_file(data_dir)
    return pid if pid and is_running(pid, program="postgres") else None


def forget_reused_pid(data_dir: Path) -> None:
    """Remove a ``postmaster.pid`` whose number now belongs to some other program.

    PostgreSQL refuses to start while a process of the same user has that pid. A file whose process
    has ended is kept: PostgreSQL removes it after it has checked the shared memory, in which
    sessions of the killed server may still be writing.
    """
    pid = _pid_in_file(data_dir)
    if pid and is_running(pid) and not is_running(pid, program="postgres"):
        with suppress(FileNotFoundError):
            (data_dir / "postmaster.pid").unlink()


def _pid_in_file(data_dir: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int((data_dir / "postmaster.pid").read_text().splitlines()[0])
    return None
