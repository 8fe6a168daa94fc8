"""Erase rows from the lakes that hold their tables, by a Spark job in a process of its own.

The job rewrites both tables of each relation and deletes their old versions at once. Meanwhile the
lake has no other run. The file that names the rows exists only as long as the job.
"""

import shutil
from collections.abc import Callable, Collection, Mapping
from typing import Any

import orjson

from replview.jobs import lakes
from replview.jobs.following import scratch_folder, silent_end, worker
from replview.jobs.lakes import LakeBusy
from replview.spark.exit_statuses import DONE
from replview.spark.processes import JobProcess
from replview.spark.scratch import make_scratch
from replview.store.connecting import store_conninfo
from replview.store.django_session import rows
from replview.store.models import Lake, LakeRun, Slot
from replview.targets.lakes import lake_arguments, lake_log
from replview.text.problem import CodedProblem

_LOOK_SECONDS = 1.0
_STORED_FROM = """
    SELECT i.number, first.commit_seq FROM slot_incarnation i CROSS JOIN LATERAL (
        SELECT commit_seq FROM transaction
        WHERE incarnation_id = i.id AND commit_seq IS NOT NULL ORDER BY commit_seq LIMIT 1) first
    WHERE i.slot_id = %s
"""


class LakeProblem(CodedProblem):
    """A lake from which nothing could be erased now."""

    code_of_all = "lake"


def lakes_of(slot: Slot, names: Collection[str], *, actor: bool) -> list[Lake]:
    """Return the slot's lakes that hold a table of these names; for an actor, all of them."""
    found = Lake.objects.filter(slot=slot)
    return list(found if actor else found.filter(relations__name__in=names).distinct())


def stored_from(slot: Slot) -> dict[str, int]:
    """Return the first ``commit_seq`` that the record has, by the number of the incarnation."""
    return {str(number): seq for number, seq in rows(_STORED_FROM, [slot.pk])}


def erase_from_lake(
    lake: Lake, document: Mapping[str, Any], check: Callable[[], None], *, by: str
) -> dict[str, int]:
    """Erase rows from a lake; return the number of ``files`` and ``rows`` that held them.

    ``document`` is a ``LakeErasure`` for each of its ``tables``. ``check`` raises an error when the
    work must stop. Raises ``LakeProblem``.
    """
    try:
        run = lakes.request(lake, LakeRun.Action.ERASE, by=by, how=LakeRun.How.COMMAND)
    except LakeBusy as busy:
        raise LakeProblem(str(busy), "wait until it has ended") from None
    try:
        status, reports = _run_job(lake, run, document, check)
    except OSError as error:
        cause = f"the job cannot be started: {error.strerror}"
        raise _failed(run, "", cause, "see the data folder") from None
    except BaseException:
        # The erasure stops here, and is continued later.
        lakes.rows.cancel(run.pk)
        raise
    if problem := next((report for report in reports if "problem" in report), None):
        table = str(problem.get("table") or "")
        raise _failed(run, table, str(problem["problem"]), str(problem.get("remedy") or ""))
    if status != DONE:
        raise _failed(run, "", *silent_end(status, "gave no result"))
    for report in reports:
        if "sizes" in report:
            lake.relations.filter(name=report["table"]).update(sizes=report["sizes"])
    lakes.rows.finish(run, result={"status": status}, reading="")
    erased = [report["erased"] for report in reports if "erased" in report]
    return {name: sum(int(each[name]) for each in erased) for name in ("files", "rows")}


def _run_job(
    lake: Lake, run: LakeRun, document: Mapping[str, Any], check: Callable[[], None]
) -> tuple[int | None, list[dict[str, Any]]]:
    """Run the job until it ends; return its exit status and its reports. Raises ``OSError``."""
    named = document["tables"]
    tables = [one.name for one in lake.relations.all() if document["actor"] or one.name in named]
    lakes.end_leftovers(lake)
    # If this worker is killed, the next job deletes the folder.
    folder, lock = make_scratch(scratch_folder())
    try:
        order, output = folder / "erasure.json", folder / "reports"
        order.write_bytes(orjson.dumps(document))
        with lock, output.open("wb") as results:
            process = JobProcess.start(
                lake_arguments(lake, run.action, tables, erasure=order), log=lake_log(lake),
                scratch=scratch_folder(), output=results,
                environment={"REPLVIEW_STORE_URL": store_conninfo()},
            )  # fmt: skip
            status = _follow(process, run, check)
        # Delta's VACUUM prints sentences among the reports.
        lines = [line for line in output.read_bytes().splitlines() if line.startswith(b"{")]
        return status, [orjson.loads(line) for line in lines]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _follow(process: JobProcess, run: LakeRun, check: Callable[[], None]) -> int | None:
    """Wait for the job, and return its exit status."""
    facts = {"job_pid": process.process.pid, "log_path": str(process.log)}
    try:
        while (status := process.wait(_LOOK_SECONDS)) is None:
            check()
            if not lakes.rows.beat(run, worker=worker(), **facts):
                raise LakeProblem(f"run {run.pk} of the lake was cancelled", "")
    finally:
        process.end()
    return status


def _failed(run: LakeRun, table: str, cause: str, remedy: str) -> LakeProblem:
    """End the run as failed, and return its problem."""
    lakes.rows.fail(run, cause, remedy, reading=table)
    return LakeProblem(f"{table}: {cause}" if table else cause, remedy)
