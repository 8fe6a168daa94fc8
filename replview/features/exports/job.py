"""Serving exports: claimed from the store, each done by a job process that a thread follows.

Apart from the worker's own threads, of which there are few, and apart from its process: a job may
start a JVM, and may be ended at any moment. A worker that is told to stop gives its exports back;
another goes on where the files end.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from replview.features.exports.process import Job, order_path
from replview.jobs.exports import give_back_lost, rows
from replview.jobs.following import After, end_leftover, follow, silent_end, worker
from replview.live.publisher import publisher
from replview.store.models import Export
from replview.targets.policy import Refused, check_again, read_policy

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

Told = Callable[[Mapping[str, Any]], None]


class Wakes(Protocol):
    """Whoever tells live pages; see ``live.publisher``."""

    def export_changed(self, export_id: int) -> None:
        """An export went on or ended."""


def carry_out(row: Export, wakes: Wakes, stop: threading.Event, told: Told | None = None) -> None:
    """Do what was claimed, and keep what became of it; ``told`` hears of progress too."""
    end_leftover(row, str(order_path(row.pk)))
    try:
        policy = read_policy()
        policy.check()
        check_again(row.target, policy, anywhere=row.anywhere)
        job = Job(row)
    except Refused as refused:
        _fail(row, wakes, refused.cause, refused.remedy)
        return
    except OSError as error:
        _fail(row, wakes, f"the job cannot be started: {error.strerror}", "See the data folder")
        return
    after = After.ENDED
    try:
        rows.beat(row, worker=worker(), job_pid=job.pid, log_path=str(job.log_path))
        after = _follow(job, row, wakes, stop, told)
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


def _follow(job: Job, row: Export, wakes: Wakes, stop: threading.Event, told: Told | None) -> After:
    known: Mapping[str, Any] = {}

    def news() -> Mapping[str, Any] | None:
        nonlocal known
        if job.progress is known:
            return None
        known = job.progress
        return {column: known[name] for name, column in _COLUMNS.items() if name in known}

    def stored() -> None:
        wakes.export_changed(row.pk)
        if told is not None:
            told(known)

    return follow(rows, row, job.wait, stop, news, stored)


def _conclude(job: Job, row: Export, wakes: Wakes) -> None:
    """Keep what the job said last."""
    manifest = job.last.get("manifest")
    if job.status == 0 and isinstance(manifest, dict):
        files = manifest["files"]
        kept = {**manifest, "files": files[:_MOST_FILES]}
        rows.finish(
            row,
            result=kept,
            seconds_left=0.0,
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
        problem, remedy = silent_end(job.status, "said nothing")
    _fail(row, wakes, problem, remedy)


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
