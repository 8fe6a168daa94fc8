"""Serving exports: claimed from the store, each done by a job process that a thread follows.

Apart from the worker's own threads, of which there are few, and apart from its process: a job may
start a JVM, and may be ended at any moment. A worker that is told to stop gives its exports back;
another goes on where the files end.
"""

import enum
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from django.db import OperationalError, connection

from replview.features.exports.process import Job, end_leftover
from replview.jobs import exports
from replview.jobs.exports import LOST_SECONDS
from replview.jobs.rows import Claim
from replview.jobs.running import Kind, register
from replview.live.publisher import publisher
from replview.store.models import Export
from replview.targets.policy import Refused, check_again, read_policy

log = logging.getLogger(__name__)

#: Exports at the same time in one process.
_AT_ONCE = 2
#: How often a job's lines are looked at, progress is stored at most, and a sign of life at least.
_LOOK_SECONDS = 0.2
_PROGRESS_SECONDS = 0.5
_BEAT_SECONDS = 1.0
#: Files that a finished export names; the manifest beside them names all.
_MOST_FILES = 2_000

Told = Callable[[Mapping[str, Any]], None]


class Wakes(Protocol):
    """Whoever tells live pages; see ``live.publisher``."""

    def export_changed(self, export_id: int) -> None:
        """An export went on or ended."""


def carry_out(claim: Claim, wakes: Wakes, stop: threading.Event, told: Told | None = None) -> None:
    """Do what was claimed, and keep what became of it; ``told`` hears of progress too."""
    row = Export.objects.get(pk=claim.job_id)
    host = socket.gethostname()
    end_leftover(row, host)
    try:
        policy = read_policy()
        policy.check()
        check_again(row.target, policy, anywhere=row.anywhere)
        job = Job(row)
    except Refused as refused:
        _fail(claim, wakes, refused.cause, refused.remedy)
        return
    except OSError as error:
        _fail(claim, wakes, f"the job cannot be started: {error.strerror}", "See the data folder")
        return
    after = _After.ENDED
    try:
        worker = f"{host}:{os.getpid()}"
        exports.began(claim, worker=worker, pid=job.pid, log_path=str(job.log_path))
        after = _follow(job, claim, wakes, stop, told)
        if after is _After.STOPPED and row.requested_how == Export.How.COMMAND:
            # Nobody else goes on with it.
            exports.cancel(row.pk)
            after = _After.CANCELLED
    finally:
        job.end(take_back=after is _After.CANCELLED)
    if after is _After.ENDED:
        _conclude(job, claim, wakes)
    elif after is _After.STOPPED:
        exports.give_back(claim)
    wakes.export_changed(claim.job_id)


class _After(enum.Enum):
    """Why a job is followed no longer."""

    ENDED = "by itself"
    STOPPED = "this worker is told to stop"
    CANCELLED = "nobody wants it any more"
    LOST = "another worker has it"


def _follow(
    job: Job, claim: Claim, wakes: Wakes, stop: threading.Event, told: Told | None
) -> _After:
    """Until the job has ended, or is to be ended."""
    stored: Mapping[str, Any] = {}
    at = heard = time.monotonic()
    while not job.wait(_LOOK_SECONDS):
        if stop.is_set():
            return _After.STOPPED
        now, progress = time.monotonic(), job.progress
        news = progress is not stored
        if now - at < (_PROGRESS_SECONDS if news else _BEAT_SECONDS):
            continue
        at = now
        try:
            if not exports.beat(claim, **_columns(progress)):
                gone = exports.is_cancelled(claim.job_id)
                return _After.CANCELLED if gone else _After.LOST
        except OperationalError:
            connection.close()
            if now - heard > LOST_SECONDS / 2:
                raise  # soon another may have it: the job ends before that
            continue
        heard, stored = now, progress
        if news:
            wakes.export_changed(claim.job_id)
            if told is not None:
                told(progress)
    return _After.ENDED


def _conclude(job: Job, claim: Claim, wakes: Wakes) -> None:
    """Keep what the job said last."""
    manifest = job.last.get("manifest")
    if job.status == 0 and isinstance(manifest, dict):
        files = manifest["files"]
        kept = {**manifest, "files": files[:_MOST_FILES]}
        exports.finish(
            claim,
            kept,
            rows=manifest["rows"],
            # While it ran, transactions and events were counted too.
            total_rows=None,
            files=len(files),
            size_bytes=manifest["bytes"],
        )
        return
    problem = str(job.last.get("problem") or "")
    remedy = str(job.last.get("remedy") or "")
    if not problem:
        status = job.status or 0
        how = f"signal {-status}" if status < 0 else f"status {job.status}"
        problem = f"the job ended with {how}, and said nothing"
        remedy = "See its log; a job that was killed may have needed more memory than there is"
    _fail(claim, wakes, problem, remedy)


def _fail(claim: Claim, wakes: Wakes, cause: str, remedy: str) -> None:
    log.warning("export %s: %s", claim.job_id, cause)
    exports.fail(claim, cause, remedy)
    wakes.export_changed(claim.job_id)


def _columns(progress: Mapping[str, Any]) -> dict[str, Any]:
    """A line of progress as the row's columns; what it does not tell stays."""
    names = {
        "rows": "rows",
        "total_rows": "total_rows",
        "files": "files",
        "bytes": "size_bytes",
        "seconds_left": "seconds_left",
    }
    return {column: progress[name] for name, column in names.items() if name in progress}


#: A lost worker's export is gone on with where its files end.
KIND = register(
    Kind(
        name="export",
        task=exports.TASK,
        waits=exports.anything_waits,
        recover=exports.give_back_lost,
        claim=exports.claim,
        run=lambda claim, stop: carry_out(claim, publisher(), stop),
        at_once=_AT_ONCE,
    )
)
