"""Running history jobs: claimed from the store, each in a process of its own that a thread follows.

One at a time in a worker: each is a JVM with its memory. A worker that is told to stop ends the
job and gives it back; another begins it anew.
"""

import contextlib
import enum
import logging
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.db import OperationalError, connection

from replview.access.withheld import masked_for
from replview.jobs import history_jobs
from replview.jobs.history_jobs import LOST_SECONDS
from replview.jobs.rows import Claim
from replview.jobs.running import Kind, register
from replview.spark.processes import JobProcess
from replview.store.models import Export, HistoryJob
from replview.store.retention import archive
from replview.targets.policy import Refused, check_again, read_policy

log = logging.getLogger(__name__)

#: Rows that are kept of a result; all of them are in its Parquet.
ROWS_KEPT = 200
#: Longer values are cut where they are shown.
_CELL = 1_000
_MOST_BYTES = 64 * 1024 * 1024
_LOOK_SECONDS = 0.2
_BEAT_SECONDS = 1.0
_OPTIONS = {
    "life": "--life", "table": "--table", "lsn": "--lsn", "time": "--time", "every": "--every",
    "from_lsn": "--from-lsn", "to_lsn": "--to-lsn", "since": "--since", "until": "--until",
    "top": "--top",
}  # fmt: skip


def carry_out(claim: Claim, stop: threading.Event) -> None:
    """Run what was claimed, and keep what came of it."""
    row = HistoryJob.objects.get(pk=claim.job_id)
    host = socket.gethostname()
    _end_leftover(row, host)
    said = log_folder() / f"history-{row.pk}.out"
    try:
        _check(row)
        output = _new_output(row)
        job = _start(row, output, said)
    except Refused as refused:
        history_jobs.fail(claim, refused.cause, refused.remedy)
        return
    except OSError as error:
        cause = f"the job cannot be started: {error.strerror}"
        history_jobs.fail(claim, cause, "See the data folder")
        return
    after, kept = _After.LOST, False
    try:
        worker, pid = f"{host}:{os.getpid()}", job.process.pid
        history_jobs.beat(
            claim, worker=worker, job_pid=pid, log_path=str(job.log), output=str(output)
        )
        after = _follow(job, claim, stop)
    finally:
        job.end()
        if after is _After.ENDED:
            kept = _conclude(job, claim, said)
        if not kept:
            shutil.rmtree(output, ignore_errors=True)
        said.unlink(missing_ok=True)
    if after is _After.STOPPED:
        history_jobs.give_back(claim)


class _After(enum.Enum):
    """Why a job is followed no longer."""

    ENDED = "by itself"
    STOPPED = "this worker is told to stop"
    CANCELLED = "nobody wants it any more"
    LOST = "another worker has it"


def _check(row: HistoryJob) -> None:
    """Just before it is read: choices and links may be others than when it was asked for."""
    policy = read_policy()
    policy.check()
    known = Export.objects.filter(state=Export.State.DONE, target=row.root).exists()
    if not known and row.root != archive.chosen().target:
        check_again(row.root, policy, anywhere=row.anywhere)


def log_folder() -> Path:
    """Where jobs' logs are kept."""
    return Path(settings.DATA_DIR) / "history-logs"


def _new_output(row: HistoryJob) -> Path:
    """A folder of the instance that no other job, and no run before this, wrote to."""
    folder = read_policy().root.resolve() / "history-jobs"
    return folder / f"{row.pk}-{row.job}-{row.attempts}"


def arguments(row: HistoryJob, output: Path) -> list[str]:
    """The job as words of a command; values stand behind ``=``, so that none is an option."""
    found = [row.job, f"--root={row.root}"]
    found += [f"{_OPTIONS[name]}={row.words[name]}" for name in _OPTIONS if row.words.get(name)]
    tables = filter(None, str(row.words.get("tables") or "").split(","))
    found += [f"--table={name}" for name in tables]
    spark = os.environ.get("REPLVIEW_SPARK") or "local[2]"
    if masked := masked_for(str(row.words.get("life") or "")):
        found.append(f"--masked={orjson.dumps(masked).decode()}")
    return [*found, f"--output={output}", f"--limit={ROWS_KEPT}", "--json", f"--spark={spark}"]


def _start(row: HistoryJob, output: Path, said: Path) -> JobProcess:
    log_folder().mkdir(parents=True, exist_ok=True)
    with said.open("wb") as results:
        words = arguments(row, output)
        # It reads files alone: where the store is, it need not know.
        hidden = {"REPLVIEW_STORE_URL": ""}
        log_path = said.with_suffix(".log")
        return JobProcess.start(words, log=log_path, environment=hidden, output=results)


def _follow(job: JobProcess, claim: Claim, stop: threading.Event) -> _After:
    """Until the job has ended, or is to be ended."""
    at = heard = time.monotonic()
    while job.wait(_LOOK_SECONDS) is None:
        if stop.is_set():
            return _After.STOPPED
        now = time.monotonic()
        if now - at < _BEAT_SECONDS:
            continue
        at = now
        try:
            if not history_jobs.beat(claim):
                gone = history_jobs.is_cancelled(claim.job_id)
                return _After.CANCELLED if gone else _After.LOST
        except OperationalError:
            connection.close()
            if now - heard > LOST_SECONDS / 2:
                raise  # soon another may have it: the job ends before that
            continue
        heard = now
    return _After.ENDED


def _conclude(job: JobProcess, claim: Claim, said: Path) -> bool:
    """Keep what the job said; whether its files are to be kept, too."""
    told: dict[str, Any] = {}
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        if said.stat().st_size <= _MOST_BYTES:
            told = orjson.loads(said.read_bytes())
    status = job.process.returncode
    if status == 0 and "rows" in told:
        return history_jobs.finish(claim, _bounded(told))
    cause, remedy = str(told.get("problem") or ""), str(told.get("remedy") or "")
    if not cause:
        how = f"signal {-status}" if status < 0 else f"status {status}"
        cause = f"the job ended with {how}, and gave no result"
        remedy = "See its log; a job that was killed may have needed more memory than there is"
    log.warning("history job %s: %s", claim.job_id, cause)
    history_jobs.fail(claim, cause, remedy)
    return False


def _bounded(told: Mapping[str, Any]) -> dict[str, Any]:
    rows = [[_cell(value) for value in row] for row in told["rows"][:ROWS_KEPT]]
    return {**told, "rows": rows}


def _cell(value: Any) -> Any:
    """Lists and maps as text; long text cut."""
    if isinstance(value, list | dict):
        value = orjson.dumps(value).decode()
    if isinstance(value, str) and len(value) > _CELL:
        return f"{value[:_CELL]}…"
    return value


def _end_leftover(row: HistoryJob, host: str) -> None:
    """End the job a lost worker of this machine left running, and delete what it wrote."""
    if not row.output:
        return
    if row.job_pid is not None and row.worker.partition(":")[0] == host:
        words = Path(f"/proc/{row.job_pid}/cmdline")
        with contextlib.suppress(OSError):
            if f"--output={row.output}\0".encode() in words.read_bytes():
                os.killpg(row.job_pid, signal.SIGKILL)
    shutil.rmtree(row.output, ignore_errors=True)


#: A lost worker's job is begun anew.
KIND = register(
    Kind(
        name="history-job",
        task=history_jobs.TASK,
        waits=history_jobs.anything_waits,
        recover=history_jobs.give_back_lost,
        claim=history_jobs.claim,
        run=carry_out,
    )
)
