"""Running history jobs: claimed from the store, each in a process of its own that a thread follows.

One at a time in a worker: a large question is a JVM with its memory. A worker that is told to stop
ends the job and gives it back; another begins it anew.
"""

import contextlib
import logging
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from replview.access.withheld import masked_for
from replview.jobs.following import After, end_leftover, follow, silent_end, worker
from replview.jobs.rows import JobRows
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
#: The line in which a job tells what answers.
_ENGINE = re.compile(rb"^(DuckDB|Spark) answers: (\d+) rows are read$", re.MULTILINE)
_OPTIONS = {
    "life": "--life", "table": "--table", "lsn": "--lsn", "time": "--time", "every": "--every",
    "from_lsn": "--from-lsn", "to_lsn": "--to-lsn", "since": "--since", "until": "--until",
    "top": "--top",
}  # fmt: skip

rows = JobRows(
    HistoryJob,
    task="replview.serve_history_jobs",
    lost_seconds=20.0,
    most_attempts=3,
    remedy="See its log, and the memory of the machine; then run it again",
)


def carry_out(row: HistoryJob, stop: threading.Event) -> None:
    """Run what was claimed, and keep what came of it."""
    if row.output:
        # What it wrote so far is of no use to anybody.
        end_leftover(row, f"--output={row.output}\0")
        shutil.rmtree(row.output, ignore_errors=True)
    results_path = log_folder() / f"history-{row.pk}.out"
    # For what the job does not keep in memory; of a run that was killed it may still be there.
    scratch = Path(settings.DATA_DIR) / "history-scratch" / str(row.pk)
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        _check(row)
        # That no other job, and no run before this, wrote to.
        folder = read_policy().root.resolve() / "history-jobs"
        output = folder / f"{row.pk}-{row.job}-{row.attempts}"
        job = _start(row, output, results_path, scratch)
    except Refused as refused:
        rows.fail(row, refused.cause, refused.remedy)
        return
    except OSError as error:
        cause = f"the job cannot be started: {error.strerror}"
        rows.fail(row, cause, "See the data folder")
        return
    after, kept = After.LOST, False
    try:
        pid = job.process.pid
        rows.beat(row, worker=worker(), job_pid=pid, log_path=str(job.log), output=str(output))
        after = follow(
            rows, row, lambda seconds: job.wait(seconds) is not None, stop, _Engine(job.log)
        )
    finally:
        job.end()
        if after is After.ENDED:
            kept = _conclude(job, row, results_path)
        if not kept:
            shutil.rmtree(output, ignore_errors=True)
        results_path.unlink(missing_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)
    if after is After.STOPPED:
        rows.give_back(row)


def _check(row: HistoryJob) -> None:
    """Just before it is read: choices and links may be others than when it was asked for."""
    policy = read_policy()
    policy.check()
    known = Export.objects.filter(state=Export.State.DONE, target=row.root).exists()
    if not known and row.root != archive.chosen().target:
        check_again(row.root, policy, anywhere=row.anywhere)


def log_folder() -> Path:
    return Path(settings.DATA_DIR) / "history-logs"


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


def _start(row: HistoryJob, output: Path, results_path: Path, scratch: Path) -> JobProcess:
    log_folder().mkdir(parents=True, exist_ok=True)
    scratch.mkdir(parents=True)
    with results_path.open("wb") as results:
        # It reads files alone: where the store is, it need not know.
        environment = {"REPLVIEW_STORE_URL": "", "TMPDIR": str(scratch)}
        return JobProcess.start(arguments(row, output), log=results_path.with_suffix(".log"),
                                environment=environment, output=results)  # fmt: skip


class _Engine:
    """News of a job: what answers it, and how many rows it reads; once that is known."""

    def __init__(self, log: Path) -> None:
        self._log = log
        # What stands there is of runs before.
        self._read = log.stat().st_size
        self._told = False

    def __call__(self) -> dict[str, Any] | None:
        if self._told:
            return None
        with contextlib.suppress(OSError), self._log.open("rb") as log:
            log.seek(self._read)
            if found := _ENGINE.search(log.read(_MOST_BYTES)):
                self._told = True
                told = {"answered_by": found[1].decode(), "rows_read": int(found[2])}
                return {"result": {"told": told}}
        return None


def _conclude(job: JobProcess, row: HistoryJob, results_path: Path) -> bool:
    """Keep the job's result; whether its files are to be kept, too."""
    result: dict[str, Any] = {}
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        if results_path.stat().st_size <= _MOST_BYTES:
            result = orjson.loads(results_path.read_bytes())
    status = job.process.returncode
    # 3: over a gap, of which the result tells.
    if status in (0, 3) and "rows" in result:
        kept = [[_cell(value) for value in each] for each in result["rows"][:ROWS_KEPT]]
        return rows.finish(row, result={**result, "rows": kept})
    cause, remedy = str(result.get("problem") or ""), str(result.get("remedy") or "")
    if not cause:
        cause, remedy = silent_end(status, "gave no result")
    log.warning("history job %s: %s", row.pk, cause)
    rows.fail(row, cause, remedy)
    return False


def _cell(value: object) -> Any:
    """Lists and maps as text; long text cut."""
    if isinstance(value, list | dict):
        value = orjson.dumps(value).decode()
    if isinstance(value, str) and len(value) > _CELL:
        return f"{value[:_CELL]}…"
    return value


#: A lost worker's job is begun anew.
KIND = rows.served(name="history-job", run=carry_out)
