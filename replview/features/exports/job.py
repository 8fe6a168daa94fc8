"""Serving exports: claimed from the store, each done by a process of its own that a thread follows.

An export may start a JVM, and may be ended at any moment. Its process reads what to do from a file,
and the store's address from its environment; each line of its output is a JSON object, the last one
the outcome. A worker that is told to stop gives its exports back; another continues where the files
end.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson
from django.conf import settings

from replview.jobs.exports import abandoned, give_back_lost, rows
from replview.jobs.following import After, end_leftover, follow, silent_end, worker
from replview.live.publisher import publisher
from replview.spark.processes import JobProcess
from replview.store.connecting import store_conninfo
from replview.store.models import Export
from replview.targets.policy import Refused, check_again, read_policy

_MODULE = "replview.spark.export_job"
#: The variable of the environment that holds the store's address.
_DSN_VARIABLE = "REPLVIEW_STORE_URL"
#: How long it may take until an ended job's last line is read.
_PATIENCE_SECONDS = 10.0
log = logging.getLogger(__name__)
#: Exports at the same time in one process.
_AT_ONCE = 2
#: A line of progress → the row's columns; what it does not tell stays.
_COLUMNS = {
    "rows": "rows", "total_rows": "total_rows", "files": "files", "bytes": "size_bytes",
    "seconds_left": "seconds_left",
}  # fmt: skip
#: Files that a finished export names; the manifest beside them names all.
_MOST_FILES = 2_000


def folder() -> Path:
    return Path(settings.DATA_DIR) / "export-logs"


class ExportProcess:
    def __init__(self, row: Export, *, take_back: bool = False) -> None:
        """Starts it; what earlier exports left there is taken back, with ``take_back`` also what
        others began. Raises ``OSError``.
        """
        folder().mkdir(parents=True, exist_ok=True)
        self.log_path = folder() / f"export-{row.pk}.log"
        self._order = order_path(row.pk)
        # Told to stop, it takes back what it wrote; killed, it leaves it to be gone on with.
        order = {"slice": row.slice, "target": row.target, "dsn_env": _DSN_VARIABLE,
                 "spark": row.spark or None, "keep": False, "take_back": take_back,
                 "abandoned": [each.slice for each in _ended(row)]}  # fmt: skip
        self._order.write_bytes(orjson.dumps(order))
        self._job = JobProcess.start([str(self._order)], log=self.log_path, module=_MODULE,
                                     environment={_DSN_VARIABLE: store_conninfo()})  # fmt: skip
        #: The last line of progress.
        self.progress: Mapping[str, Any] = {}
        #: The last line of all.
        self.last: Mapping[str, Any] = {}
        self._reader = threading.Thread(target=self._read, name="export-lines", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._job.process.pid

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        return self._job.wait(seconds) is not None

    def end(self, *, take_back: bool = False) -> None:
        """Kill it: finished files stay, and another goes on from them. With ``take_back`` it is
        told to delete what it wrote, and killed where it does not end.
        """
        self._job.end(at_once=not take_back)
        self._reader.join(_PATIENCE_SECONDS)
        self._order.unlink(missing_ok=True)

    @property
    def status(self) -> int | None:
        """The exit status; a negative one: the signal that ended it."""
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


def _ended(row: Export) -> list[Export]:
    """Earlier exports into this target that ended before they were whole; no process of theirs
    writes any more.
    """
    found = [each for each in abandoned(row.slot_name, row.target) if each.pk != row.pk]
    for each in found:
        end_leftover(each, str(order_path(each.pk)))
    return found


def order_path(export_id: int) -> Path:
    """The file that says what to do; its name is in the process's command line."""
    return folder() / f"export-{export_id}.json"


OnProgress = Callable[[Mapping[str, Any]], None]


class Wakes(Protocol):
    """Whoever tells live pages; see ``live.publisher``."""

    def export_changed(self, export_id: int) -> None:
        """An export went on or ended."""


def carry_out(
    row: Export, wakes: Wakes, stop: threading.Event, on_progress: OnProgress | None = None,
    *, take_back: bool = False,
) -> None:  # fmt: skip
    """Do what was claimed, and keep what became of it; ``on_progress`` is called on the way."""
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
            # Nobody else goes on with it.
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
    known: Mapping[str, Any] = {}

    def news() -> Mapping[str, Any] | None:
        nonlocal known
        if job.progress is known:
            return None
        known = job.progress
        return {column: known[name] for name, column in _COLUMNS.items() if name in known}

    def stored() -> None:
        wakes.export_changed(row.pk)
        if on_progress is not None:
            on_progress(known)

    return follow(rows, row, job.wait, stop, news, stored)


def _conclude(job: ExportProcess, row: Export, wakes: Wakes) -> None:
    """Keep the job's last message."""
    manifest = job.last.get("manifest")
    if job.status == 0 and isinstance(manifest, dict):
        files = manifest["files"]
        kept = {**manifest, "files": files[:_MOST_FILES]}
        # While it ran, transactions and events were counted too.
        counts = {"rows": manifest["rows"], "total_rows": None, "files": len(files)}
        rows.finish(row, result=kept, seconds_left=0.0, size_bytes=manifest["bytes"], **counts)
    elif problem := job.last.get("problem"):
        _fail(row, wakes, str(problem), str(job.last.get("remedy") or ""))
    else:
        _fail(row, wakes, *silent_end(job.status, "said nothing"))


def _fail(row: Export, wakes: Wakes, cause: str, remedy: str) -> None:
    log.warning("export %s: %s", row.pk, cause)
    rows.fail(row, cause, remedy)
    wakes.export_changed(row.pk)


#: A lost worker's export is gone on with where its files end.
KIND = rows.served(
    name="export",
    run=lambda row, stop: carry_out(row, publisher(), stop),
    recover=give_back_lost,
    at_once=_AT_ONCE,
)
