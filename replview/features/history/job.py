"""The worker side of history jobs: each runs in a process of its own, followed by a thread.

A worker runs one at a time, since a large job is a JVM with its memory. A worker that is stopped
ends the job and gives it back; another starts it again from the beginning.
"""

import contextlib
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from replview.access.withheld import masked_for
from replview.jobs.following import After, end_leftover, follow, scratch_folder, silent_end, worker
from replview.jobs.rows import JobRows
from replview.spark.processes import JobProcess
from replview.store.models import Export, HistoryJob
from replview.store.retention import archive
from replview.targets.policy import Refused, check_again, read_policy
from replview.text.formats import shortened

log = logging.getLogger(__name__)

#: Rows of a result that are stored; its Parquet files have all of them.
ROWS_KEPT = 200
#: Characters beyond which a stored value is cut.
_CELL_CHARACTERS = 1_000
_OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
#: The beginning of the log line in which a job names its engine.
_ENGINE_LINE = b'{"answered_by":'
_FLAGS = {
    "incarnation": "--incarnation", "table": "--table", "lsn": "--lsn", "time": "--time",
    "every": "--every", "from_lsn": "--from-lsn", "to_lsn": "--to-lsn", "since": "--since",
    "until": "--until", "top": "--top",
}  # fmt: skip

rows = JobRows(
    HistoryJob,
    task="replview.serve_history_jobs",
    lost_seconds=20.0,
    most_attempts=3,
    remedy="See its log, and the memory of the machine; then run it again",
)


def carry_out(row: HistoryJob, stop: threading.Event) -> None:
    """Run a claimed job and store its outcome."""
    if row.output:
        # An earlier attempt's files are useless.
        end_leftover(row, f"--output={row.output}\0")
        shutil.rmtree(row.output, ignore_errors=True)
    results_path = log_folder() / f"history-{row.pk}.out"
    try:
        _check_root(row)
        # Each attempt has a folder of its own, to which nothing else has written.
        folder = read_policy().root.resolve() / "history-jobs"
        output = folder / f"{row.pk}-{row.job}-{row.attempts}"
        job = _start(row, output, results_path)
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
            rows, row, lambda seconds: job.wait(seconds) is not None, stop, _EngineReader(job.log)
        )
    finally:
        job.end()
        if after is After.ENDED:
            kept = _conclude(job, row, results_path)
        if not kept:
            shutil.rmtree(output, ignore_errors=True)
        results_path.unlink(missing_ok=True)
    if after is After.STOPPED:
        rows.give_back(row)


def _check_root(row: HistoryJob) -> None:
    """Check the job's root again just before reading: the policy or links may have changed."""
    policy = read_policy()
    policy.check()
    is_export = Export.objects.filter(state=Export.State.DONE, target=row.root).exists()
    if not is_export and row.root != archive.chosen().target:
        check_again(row.root, policy, anywhere=row.anywhere)


def log_folder() -> Path:
    """Return the folder of the jobs' logs."""
    return Path(settings.DATA_DIR) / "history-logs"


def arguments(row: HistoryJob, output: Path) -> list[str]:
    """Return the job's command line; a value follows a ``=``, so that none is read as an option."""
    argv = [row.job, f"--root={row.root}"]
    argv += [f"{_FLAGS[name]}={row.words[name]}" for name in _FLAGS if row.words.get(name)]
    tables = filter(None, str(row.words.get("tables") or "").split(","))
    argv += [f"--table={name}" for name in tables]
    spark = os.environ.get("REPLVIEW_SPARK") or "local[2]"
    if masked := masked_for(str(row.words.get("incarnation") or "")):
        argv.append(f"--masked={orjson.dumps(masked).decode()}")
    return [*argv, f"--output={output}", f"--limit={ROWS_KEPT}", "--json", f"--spark={spark}"]


def _start(row: HistoryJob, output: Path, results_path: Path) -> JobProcess:
    log_folder().mkdir(parents=True, exist_ok=True)
    with results_path.open("wb") as results:
        # The job reads only files; it does not get the store's address.
        return JobProcess.start(
            arguments(row, output), log=results_path.with_suffix(".log"), scratch=scratch_folder(),
            environment={"REPLVIEW_STORE_URL": ""}, output=results,
        )  # fmt: skip


class _EngineReader:
    """A reader of the log for the job's engine and the number of rows it reads, once logged."""

    def __init__(self, log: Path) -> None:
        self._log = log
        # Earlier contents of the log come from earlier runs.
        self._read = log.stat().st_size
        self._reported = False

    def __call__(self) -> dict[str, Any] | None:
        if self._reported:
            return None
        # The line may be half written.
        with contextlib.suppress(OSError, orjson.JSONDecodeError), self._log.open("rb") as log:
            log.seek(self._read)
            for line in log.read(_OUTPUT_LIMIT_BYTES).splitlines():
                if line.startswith(_ENGINE_LINE):
                    details = orjson.loads(line)
                    self._reported = True
                    return {"result": {"details": details}}
        return None


def _conclude(job: JobProcess, row: HistoryJob, results_path: Path) -> bool:
    """Store the job's result, and return whether its files are to be kept."""
    result: dict[str, Any] = {}
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        if results_path.stat().st_size <= _OUTPUT_LIMIT_BYTES:
            result = orjson.loads(results_path.read_bytes())
    status = job.process.returncode
    # Status 3 means that the result crosses a gap, which it describes.
    if status in (0, 3) and "rows" in result:
        stored_rows = [
            [_stored_value(value) for value in values] for values in result["rows"][:ROWS_KEPT]
        ]
        return rows.finish(row, result={**result, "rows": stored_rows})
    cause, remedy = str(result.get("problem") or ""), str(result.get("remedy") or "")
    if not cause:
        cause, remedy = silent_end(status, "gave no result")
    log.warning("history job %s: %s", row.pk, cause)
    rows.fail(row, cause, remedy)
    return False


def _stored_value(value: object) -> Any:
    """Return lists and maps as text, and long text cut."""
    if isinstance(value, list | dict):
        value = orjson.dumps(value).decode()
    return shortened(value, _CELL_CHARACTERS) if isinstance(value, str) else value


#: A lost worker's job starts again from the beginning.
KIND = rows.served(name="history-job", run=carry_out)
