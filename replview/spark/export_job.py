"""``python -m replview.spark.export_job JOB.json`` runs one export in a process of its own.

The file has ``slice`` (``Slice.to_json()``), ``target`` (a folder or URL), ``dsn_env`` (the name of
the environment variable with the store's address), ``spark`` (null, or Spark's address:
``local[2]``, ``sc://…``, ``spark://…``, ``default`` for the setting of spark-submit and the
environment) and ``keep`` (whether finished files of a cancelled export stay). ``abandoned`` has the
slices of earlier runs that ended before they were complete; those that are in the way are deleted,
with ``take_back`` all of them. The file holds no secret.

Standard output is JSON, one object per line: ``{"event": "progress", …}`` at most twice a second,
and at the end one of

- ``{"event": "done", "manifest": …}``, status 0; its ``written`` has the ends of the new pieces
- ``{"event": "problem", "problem": …, "remedy": …}``, status 1
- ``{"event": "cancelled"}``, status 3

Standard error is the log. SIGTERM and SIGINT cancel: partly written files are deleted, and finished
ones too unless ``keep`` is set.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from replview.parquet.job_process import begin, problem_of, say, stop_on_signals
from replview.parquet.reading.connecting import ENVIRONMENT, StoreProblem
from replview.parquet.slices import Slice
from replview.parquet.writing import chains
from replview.parquet.writing.exporting import Progress, export
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.problems import Cancelled
from replview.parquet.writing.targets import Target, test_write
from replview.spark.exit_statuses import CANCELLED, DONE, FAILED
from replview.spark.exporting import writing

log = logging.getLogger("replview.export")

_REPORT_SECONDS = 0.5


class _ProgressReport:
    """A function that prints progress at a limited rate, and logs it now and then."""

    def __init__(self) -> None:
        self._reported_at = self._logged_at = 0.0
        self._files = -1

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._reported_at < _REPORT_SECONDS and progress.files == self._files:
            return
        self._reported_at = now
        if progress.files != self._files or now - self._logged_at > 30:
            self._logged_at = now
            log.info(
                "%s of %s rows, %s of %s files, %s bytes",
                f"{progress.rows:,}", f"{progress.total_rows:,}", progress.files,
                progress.total_files, f"{progress.bytes:,}",
            )  # fmt: skip
        self._files = progress.files
        say({"event": "progress", **asdict(progress)})


def main(arguments: list[str] | None = None) -> int:
    """Run the job that a file describes; return the exit status."""
    path, stopped = begin(arguments)
    try:
        result = _run(orjson.loads(path.read_bytes()), stopped)
    except Cancelled:
        log.info("cancelled")
        say({"event": "cancelled"})
        return CANCELLED
    except BrokenPipeError:
        # The parent process has ended; finished files stay for the next run.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        remedy = "its log names the place; run it again, and report it if it fails again"
        problem = problem_of(error, log, what="the export", unexpected=remedy)
        say({"event": "problem", **problem})
        return FAILED
    say({"event": "done", "manifest": result})
    return DONE


def _run(job: Mapping[str, Any], stopped: threading.Event) -> Mapping[str, Any]:
    part = Slice.from_json(job["slice"])
    target = Target.of(job["target"])
    name = job.get("dsn_env") or ENVIRONMENT
    dsn = os.environ.get(name)
    if dsn is None:
        raise StoreProblem("no store is named", f"set {name} in the environment")
    ends = f"{part.after_seq + 1}…{part.through_seq}"
    log.info("slice %s of %s/%s into %s", ends, part.source, part.slot, target.url)
    test_write(target)
    with writing(job.get("spark"), "replview export") as write:
        stop_on_signals(stopped)
        document = _write(job, part, target, dsn=dsn, write_parts=write, cancelled=stopped.is_set)
    log.info(
        "done: %s rows in %s files, %s bytes",
        f"{document['rows']:,}", len(document["files"]), f"{document['bytes']:,}",
    )  # fmt: skip
    return document


def _write(
    job: Mapping[str, Any], part: Slice, target: Target, *, cancelled: Callable[[], bool],
    **options: Any,
) -> Mapping[str, Any]:  # fmt: skip
    """Return the slice's manifest, written in the pieces that earlier runs began."""
    keep, report, made = bool(job.get("keep")), _ProgressReport(), list[Manifest]()
    ended = chains.abandoned_by([Slice.from_json(each) for each in job.get("abandoned", ())])
    abandoned = (lambda name: True) if job.get("take_back") else ended
    chain = chains.Chain.of(target, part)
    try:
        for piece in chain.pieces(part):
            made.append(export(piece, target, **options, progress=report, keep=keep,
                               cancelled=cancelled, abandoned=abandoned))  # fmt: skip
    except Cancelled:
        mine = [manifest for manifest in made if manifest.is_new]
        for manifest in () if keep else mine:
            chains.take_back(target, manifest)
        raise
    return Manifest.together(part, made).document


if __name__ == "__main__":
    sys.exit(main())
