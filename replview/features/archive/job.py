"""The worker side of the archive: a job process writes each slice that is due.

A thread waits for the process and counts the result; only then the mark moves
(``store.retention.archive``). One worker process does this at a time. A crash leaves files and an
unmoved mark: the next worker finds the slice, complete or not, and continues with the same ends.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from replview.jobs.exports import abandoned
from replview.jobs.following import scratch_folder
from replview.jobs.running import JobKind, register
from replview.spark.exit_statuses import DONE, FAILED
from replview.spark.processes import JobProcess
from replview.store.connecting import store_conninfo
from replview.store.models import ArchiveMark
from replview.store.retention import archive
from replview.store.retention.archive import ArchiveStep, SliceCounts, home_of

MODULE = "replview.spark.archive_job"
COMPACTING = "replview.parquet.archive.compacting"
#: Maximum number of bytes that one run compacts, and its rate unless someone waits for it.
_COMPACTED_BYTES = 1 << 30
_COMPACTED_BYTES_PER_SECOND = 32 << 20
#: By mark, the position up to which nothing is left to compact, or compacting failed.
_compacted: dict[int, int] = {}
_POLL_SECONDS = 0.2
#: Bytes beyond which the log starts again.
_LOG_BYTES = 4 * 1024 * 1024
_STOPPED_STATUS = 3


def work_off(stop: threading.Event) -> int:
    """Archive all slices that are due, compact some files, and return the number of slices."""
    done = 0
    with archive.alone() as locked:
        while locked and not stop.is_set():
            step = archive.next_step()
            if step is None:
                break
            done += carry_out(step, stop)
        if locked and not stop.is_set():
            compact(stop)
    return done


def compact(stop: threading.Event, *, all_of_it: bool = False) -> tuple[list[int], str]:
    """Merge small files of the archive into large ones: some of them, or all.

    Returns the number of files before and after, and the problem (empty: none).
    """
    file_counts = [0, 0]
    for mark in archive.marks():
        while all_of_it or _compacted.get(mark.pk) != mark.through_seq:
            try:
                status, result = run_process(
                    COMPACTING, _compaction_job(mark, fast=all_of_it), stop
                )
            except OSError as error:
                status, result = FAILED, {"problem": f"the job cannot be started: {error.strerror}"}
            if stop.is_set():
                return file_counts, ""
            if status != DONE:
                _compacted[mark.pk] = mark.through_seq
                problem = str(result.get("problem") or f"the job ended with status {status}")
                remedy = str(result.get("remedy") or f"See {log_path()}")
                archive.log(mark, f"Small files stay in the archive: {problem}.", remedy=remedy)
                return file_counts, problem
            if not result["before"]:
                _compacted[mark.pk] = mark.through_seq
                break
            archive.grow(mark, int(result["grown"]))
            file_counts = [file_counts[0] + result["before"], file_counts[1] + result["after"]]
            if not all_of_it:
                return file_counts, ""
    return file_counts, ""


def _compaction_job(mark: ArchiveMark, *, fast: bool) -> dict[str, object]:
    slot, incarnation = mark.incarnation.slot, mark.incarnation
    slice_ = {"source": home_of(mark, slot), "slot": slot.name, "incarnation_id": incarnation.pk,
              "incarnation": incarnation.number, "after_seq": 0,
              "through_seq": mark.through_seq}  # fmt: skip
    return {"slice": slice_, "target": mark.target, "most_bytes": _COMPACTED_BYTES,
            "bytes_per_second": None if fast else _COMPACTED_BYTES_PER_SECOND}  # fmt: skip


def carry_out(step: ArchiveStep, stop: threading.Event) -> bool:
    """Write one slice, compare its counts and move the mark; on failure the mark says why."""
    try:
        status, result = _write_slice(step, stop)
    except OSError as error:
        archive.fail(step, f"the job cannot be started: {error.strerror}", "See the data folder")
        return False
    if stop.is_set() and status != DONE:
        return False
    if status != DONE:
        problem = str(result.get("problem") or f"the job ended with status {status}")
        archive.fail(step, problem, str(result.get("remedy") or f"See {log_path()}"))
        return False
    through_seq = int(result["through_seq"])
    changes = {(oid, operation): number for oid, operation, number in result["changes"]}
    archived = SliceCounts(int(result["transactions"]), changes)
    stored = archive.counts_of(step.incarnation_id, step.after_seq, through_seq)
    if difference := archive.difference(stored, archived):
        remedy = ("Nothing was deleted. Delete the slice's manifest in _manifests, and it is "
                  "written again; if that does not help, report it")  # fmt: skip
        archive.fail(
            step, f"{difference} (commit_seq {step.after_seq + 1} to {through_seq})", remedy
        )
        return False
    moved = archive.move(step, through_seq, archived, int(result["bytes"]))
    for folder, reason in result.get("opened", ()) if moved else ():
        archive.log(step, f"The archive goes on in a new folder, {folder}: {reason}.")
    return moved


def _write_slice(step: ArchiveStep, stop: threading.Event) -> tuple[int, Mapping[str, Any]]:
    """Return the job's exit status and its result. Raises ``OSError``."""
    abandoned_slices = [row.slice for row in abandoned(f"{step.source}/{step.slot}", step.target)]
    order = {"slice": _slice_json(step), "target": step.target, "abandoned": abandoned_slices}
    return run_process(MODULE, order, stop)


def run_process(
    module: str, job: Mapping[str, object], stop: threading.Event
) -> tuple[int, Mapping[str, Any]]:
    """Run a job in a process of its own, and return its exit status and its result.

    Raises ``OSError`` where it cannot be started.
    """
    folder = log_path().parent
    folder.mkdir(parents=True, exist_ok=True)
    if log_path().exists() and log_path().stat().st_size > _LOG_BYTES:
        log_path().unlink()
    order, output = folder / "archive.json", folder / "archive.out"
    order.write_bytes(orjson.dumps(job))
    environment = {"REPLVIEW_STORE_URL": store_conninfo()}
    # A job whose worker was killed may still be writing into the former file.
    output.unlink(missing_ok=True)
    with output.open("wb") as results:
        process = JobProcess.start(
            [str(order)], log=log_path(), scratch=scratch_folder(), module=module,
            environment=environment, output=results,
        )  # fmt: skip
    try:
        while (status := process.wait(_POLL_SECONDS)) is None and not stop.is_set():
            pass
    finally:
        process.end()
    if status is None:
        return _STOPPED_STATUS, {}
    try:
        result = orjson.loads(output.read_bytes())
    except orjson.JSONDecodeError:
        result = {}
    return status, result


def log_path() -> Path:
    """Return the path of the archive jobs' log."""
    return Path(settings.DATA_DIR) / "archive-logs" / "archive.log"


def _slice_json(step: ArchiveStep) -> dict[str, object]:
    """Return the slice in the form of ``parquet.slices.Slice``, without importing pyarrow."""
    names = ("source", "slot", "incarnation_id", "after_seq", "through_seq")
    return {"incarnation": step.number, **{name: getattr(step, name) for name in names}}


#: A crash leaves files and an unmoved mark: the next run continues with the same ends.
KIND = register(
    JobKind(
        name="archive",
        task="replview.serve_archive",
        waits=lambda: archive.chosen().target is not None,
        claim=lambda: True,
        run=lambda _, stop: work_off(stop),
        again=False,
    )
)
