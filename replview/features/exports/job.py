"""The worker side of exports: each runs in a process of its own, followed by a thread.

An export may start a JVM, and may be killed at any moment. Its process reads its order from a file,
and the store's address from its environment. Each line of its output is a JSON object, and the last
one is the outcome. A worker that is stopped gives its exports back; another continues where the
files end.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import orjson
from django.conf import settings

from replview.jobs.exports import abandoned, give_back_lost, rows
from replview.jobs.following import After, end_leftover, follow, scratch_folder, silent_end, worker
from replview.live.publisher import publisher
from replview.spark.exit_statuses import DONE
from replview.spark.processes import JobProcess
from replview.store.connecting import store_conninfo
from replview.store.models import Export
from replview.targets.policy import Refused, check_again, read_policy

_MODULE = "replview.spark.export_job"
#: Environment variable with the store's address.
_STORE_VARIABLE = "REPLVIEW_STORE_URL"
#: Seconds to wait for the last line of a job that has ended.
_LAST_LINE_SECONDS = 10.0
log = logging.getLogger(__name__)
#: Exports that run at the same time in one process.
_CONCURRENT_EXPORTS = 2
#: The row's column for each field of a line of progress; missing fields leave the column unchanged.
_PROGRESS_COLUMNS = {
    "rows": "rows", "total_rows": "total_rows", "files": "files", "bytes": "size_bytes",
    "seconds_left": "seconds_left",
}  # fmt: skip
#: Maximum number of files that the row of a finished export lists; the manifest lists all.
_FILES_LIMIT = 2_000
OnProgress = Callable[[Mapping[str, Any]], None]


def folder() -> Path:
    """Return the folder of the jobs' orders and logs."""
    return Path(settings.DATA_DIR) / "export-logs"


class ExportProcess:
    """The process of one export."""

    def __init__(self, row: Export, *, take_back: bool = False) -> None:
        """Start the process. Raises ``OSError``.

        It first deletes files that earlier exports abandoned there and, with ``take_back``,
        unfinished files of any other writer.
        """
        folder().mkdir(parents=True, exist_ok=True)
        self.log_path = folder() / f"export-{row.pk}.log"
        self._order = order_path(row.pk)
        # On SIGTERM the process deletes what it wrote; if it is killed, its files stay to be
        # continued.
        order = {"slice": row.slice, "target": row.target, "dsn_env": _STORE_VARIABLE,
                 "spark": row.spark or None, "keep": False, "take_back": take_back,
                 "abandoned": [export.slice for export in _end_abandoned(row)]}  # fmt: skip
        self._order.write_bytes(orjson.dumps(order))
        self._job = JobProcess.start(
            [str(self._order)], log=self.log_path, scratch=scratch_folder(), module=_MODULE,
            environment={_STORE_VARIABLE: store_conninfo()},
        )  # fmt: skip
        #: The last line of progress.
        self.progress: Mapping[str, Any] = {}
        #: The last line of output.
        self.last: Mapping[str, Any] = {}
        self._reader = threading.Thread(target=self._read, name="export-lines", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Return the identifier of the process and of its group."""
        return self._job.process.pid

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``, and return whether the process has ended."""
        return self._job.wait(seconds) is not None

    def end(self, *, take_back: bool = False) -> None:
        """Kill the process; its finished files stay, and another export continues from them.

        With ``take_back`` it gets a signal to delete what it wrote, and is killed if it does not
        end.
        """
        self._job.end(at_once=not take_back)
        self._reader.join(_LAST_LINE_SECONDS)
        self._order.unlink(missing_ok=True)

    @property
    def status(self) -> int | None:
        """Return the exit status; a negative one is the signal that ended the process."""
        return self._job.process.returncode

    def _read(self) -> None:
        assert self._job.process.stdout is not None
        with self._job.process.stdout as lines:
            for line in lines:
                with contextlib.suppress(orjson.JSONDecodeError):
                    message = orjson.loads(line)
                    if isinstance(message, dict):
                        self.last = message
                        self.progress = message if "rows" in message else self.progress


def _end_abandoned(row: Export) -> list[Export]:
    """End the processes of earlier unfinished exports into this target; return these exports."""
    exports = [export for export in abandoned(row.slot_name, row.target) if export.pk != row.pk]
    for export in exports:
        end_leftover(export, str(order_path(export.pk)))
    return exports


def order_path(export_id: int) -> Path:
    """Return the path of the job's order, which also identifies the process by its command line."""
    return folder() / f"export-{export_id}.json"


class Wakes(Protocol):
    """A publisher that wakes live pages; see ``live.publisher``."""

    def export_changed(self, export_id: int) -> None:
        """Announce that an export made progress or ended."""


def carry_out(
    row: Export, wakes: Wakes, stop: threading.Event, on_progress: OnProgress | None = None,
    *, take_back: bool = False,
) -> None:  # fmt: skip
    """Run a claimed export and store its outcome; ``on_progress`` is called on the way."""
    end_leftover(row, str(order_path(row.pk)))
    try:
        policy = read_policy()
        policy.check()
        check_again(row.target, policy, anywhere=row.anywhere)
        job = ExportProcess(row, take_back=take_back)
    except Refused as refused:
        _fail(row, wakes, refused.cause, refused.remedy)
        return
    except OSError as error:
        _fail(row, wakes, f"the job cannot be started: {error.strerror}", "See the data folder")
        return
    after = After.ENDED
    try:
        rows.beat(row, worker=worker(), job_pid=job.pid, log_path=str(job.log_path))
        after = _follow(job, row, wakes, stop, on_progress)
        if after is After.STOPPED and row.requested_how == Export.How.COMMAND:
            # No worker continues an export that a command runs.
            rows.cancel(row.pk)
            after = After.CANCELLED
    finally:
        job.end(take_back=after is After.CANCELLED)
    if after is After.ENDED:
        _conclude(job, row, wakes)
    elif after is After.STOPPED:
        rows.give_back(row)
    wakes.export_changed(row.pk)


def _follow(
    job: ExportProcess, row: Export, wakes: Wakes, stop: threading.Event,
    on_progress: OnProgress | None,
) -> After:  # fmt: skip
    progress: Mapping[str, Any] = {}

    def new_progress() -> Mapping[str, Any] | None:
        nonlocal progress
        if job.progress is progress:
            return None
        progress = job.progress
        return {
            column: progress[name] for name, column in _PROGRESS_COLUMNS.items() if name in progress
        }

    def on_stored() -> None:
        wakes.export_changed(row.pk)
        if on_progress is not None:
            on_progress(progress)

    return follow(rows, row, job.wait, stop, new_progress, on_stored)


def _conclude(job: ExportProcess, row: Export, wakes: Wakes) -> None:
    """Store the outcome from the job's last message."""
    manifest = job.last.get("manifest")
    if job.status == DONE and isinstance(manifest, dict):
        files, written = manifest["files"], manifest.pop("written", [])
        result = {**manifest, "files": files[:_FILES_LIMIT]}
        # Rows of transactions and events counted as progress, too; the row keeps those of the
        # manifest.
        counts = {"rows": manifest["rows"], "total_rows": None, "files": len(files)}
        if not rows.finish(
            row, result=result, seconds_left=0.0, size_bytes=manifest["bytes"], **counts
        ) and rows.is_cancelled(row):
            _take_back(row, written)
    elif problem := job.last.get("problem"):
        _fail(row, wakes, str(problem), str(job.last.get("remedy") or ""))
    else:
        _fail(row, wakes, *silent_end(job.status, "said nothing"))


def _take_back(row: Export, written: Sequence[Mapping[str, int]]) -> None:
    """Delete what an export wrote that was cancelled after its last file.

    ``written`` has the ends of its slices. Those that were whole before are not among them.
    """
    # Import here, so that a worker that only follows jobs does not load pyarrow.
    from replview.parquet.slices import Slice
    from replview.parquet.writing.chains import take_back
    from replview.parquet.writing.manifests import read_manifest
    from replview.parquet.writing.problems import TargetProblem
    from replview.parquet.writing.targets import Target

    part = Slice.from_json(row.slice)
    try:
        target = Target.of(row.target)
        for ends in written:
            piece = replace(part, after_seq=ends["after"], through_seq=ends["through"])
            if (manifest := read_manifest(target, piece)) is not None:
                take_back(target, manifest)
    except TargetProblem as problem:
        log.warning("export %s was cancelled, but its files stay: %s", row.pk, problem)


def _fail(row: Export, wakes: Wakes, cause: str, remedy: str) -> None:
    log.warning("export %s: %s", row.pk, cause)
    rows.fail(row, cause, remedy)
    wakes.export_changed(row.pk)


#: Another worker continues a lost worker's export where its files end.
KIND = rows.served(
    name="export",
    run=lambda row, stop: carry_out(row, publisher(), stop),
    recover=give_back_lost,
    at_once=_CONCURRENT_EXPORTS,
)
