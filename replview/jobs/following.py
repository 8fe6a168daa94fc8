"""Follow a job that runs in a process of its own, from a worker's thread, until it ends.

A process that a lost worker left running is killed before another one starts.
"""

import contextlib
import enum
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from django.conf import settings
from django.db import OperationalError, connection

from replview.jobs.rows import JobRows
from replview.store.models.jobs import ProcessJob

#: Seconds between two checks of a process, two stores of news, and two heartbeats.
_LOOK_SECONDS = 0.2
_NEWS_SECONDS = 0.5
_BEAT_SECONDS = 1.0
#: Seconds to wait for a killed process to end.
_PATIENCE_SECONDS = 10.0

P = TypeVar("P", bound=ProcessJob)


class After(enum.Enum):
    """A reason to stop following a job's process."""

    ENDED = "by itself"
    STOPPED = "this worker is told to stop"
    CANCELLED = "nobody wants it any more"
    LOST = "another worker has it"


def worker() -> str:
    """Return the name of this process in the rows of its jobs."""
    return f"{socket.gethostname()}:{os.getpid()}"


def scratch_folder() -> Path:
    """Return the folder below which each job's process has one for its temporary files."""
    return Path(settings.DATA_DIR) / "job-scratch"


def follow(
    rows: JobRows[P],
    claim: P,
    has_ended: Callable[[float], bool],
    stop: Event,
    news: Callable[[], Mapping[str, Any] | None] = lambda: None,
    stored: Callable[[], object] = lambda: None,
) -> After:
    """Follow a job until it has ended or must end, and return the reason.

    ``has_ended`` waits the given seconds. ``news`` returns changed columns of the row; ``stored``
    is called once they are stored.
    """
    tried_at = beaten_at = time.monotonic()
    columns: Mapping[str, Any] | None = None
    while not has_ended(_LOOK_SECONDS):
        if stop.is_set():
            return After.STOPPED
        now, columns = time.monotonic(), news() or columns
        if now - tried_at < (_NEWS_SECONDS if columns else _BEAT_SECONDS):
            continue
        tried_at = now
        try:
            if not rows.beat(claim, **(columns or {})):
                return After.CANCELLED if rows.is_cancelled(claim) else After.LOST
        except OperationalError:
            connection.close()
            if now - beaten_at > rows.lost_seconds / 2:
                raise  # so that the job ends before another worker takes it
            continue
        beaten_at = now
        if columns:
            columns = None
            stored()
    return After.ENDED


def end_leftover(row: ProcessJob, words: str) -> None:
    """Kill the process that a lost worker of this machine left running.

    Otherwise it would work beside the new one. ``words`` is text of its command line. A process on
    another machine ends by itself when nobody reads its output any more.
    """
    host, _, _ = worker().partition(":")
    if row.job_pid is None or row.worker.partition(":")[0] != host:
        return
    command = Path(f"/proc/{row.job_pid}/cmdline")
    with contextlib.suppress(OSError):
        if words.encode() in command.read_bytes():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(row.job_pid, signal.SIGKILL)
            until = time.monotonic() + _PATIENCE_SECONDS
            while command.read_bytes() and time.monotonic() < until:
                time.sleep(0.05)


def silent_end(status: int | None, consequence: str) -> tuple[str, str]:
    """Return cause and remedy for a process that ended without reporting its end."""
    status_text = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
    remedy = "See its log; a job that was killed may have needed more memory than there is"
    return f"the job ended with {status_text}, and {consequence}", remedy
