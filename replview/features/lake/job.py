"""The worker side of lakes: each run is a Spark job in a process of its own, followed by a thread.

The process writes a line of JSON for each table and each batch, which this module stores. A run
that is stopped or killed is repeated from the lake's last commit, so that no change is there twice.
"""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from django.db import OperationalError, connection
from django.utils import timezone

from replview.jobs.following import After, follow, scratch_folder, silent_end, worker
from replview.jobs.lakes import end_leftovers, recover, rows
from replview.spark.exit_statuses import DONE, GAP, NOTHING_NEW
from replview.spark.processes import JobProcess
from replview.store.connecting import store_conninfo
from replview.store.models import Lake, LakeRelation, LakeRun
from replview.targets.lakes import lake_arguments, lake_log
from replview.targets.policy import Refused, check_again, read_policy

log = logging.getLogger(__name__)

#: Seconds to wait for the last line of a job that has ended.
_LAST_LINE_SECONDS = 10.0
#: Columns of a table that its report may have.
_REPORTED = ("reached", "batches", "no_current", "sizes")
Report = dict[str, Any]
OnReport = Callable[[Report], None]


class _RunProcess:
    """The process of one run, and the reports that it has written."""

    def __init__(self, row: LakeRun) -> None:
        """Start the process. Raises ``OSError``."""
        self.log_path = lake_log(row.lake)
        self._job = JobProcess.start(
            arguments(row), log=self.log_path, scratch=scratch_folder(),
            environment={"REPLVIEW_STORE_URL": store_conninfo()},
        )  # fmt: skip
        #: Reports that are not stored yet.
        self.reports: deque[Report] = deque()
        self._reader = threading.Thread(target=self._read, name="lake-lines", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Return the identifier of the process and of its group."""
        return self._job.process.pid

    @property
    def status(self) -> int | None:
        """Return the exit status; a negative one is the signal that ended the process."""
        return self._job.process.returncode

    def has_ended(self, seconds: float) -> bool:
        """Wait up to ``seconds``, and return whether the process has ended."""
        return self._job.wait(seconds) is not None

    def end(self) -> None:
        """End the process and all that it started, and read its last line."""
        self._job.end()
        self._reader.join(_LAST_LINE_SECONDS)

    def _read(self) -> None:
        assert self._job.process.stdout is not None
        with self._job.process.stdout as lines:
            for line in lines:
                with contextlib.suppress(orjson.JSONDecodeError):
                    report = orjson.loads(line)
                    # Another program's line may be JSON, too.
                    if isinstance(report, dict) and "state" in report:
                        self.reports.append(report)


class _Reports:
    """The reports of a run, stored one by one."""

    def __init__(self, row: LakeRun, process: _RunProcess, on_report: OnReport | None) -> None:
        self._row, self._unstored, self._on_report = row, process.reports, on_report
        self._tables = [relation.name for relation in row.lake.relations.all()]
        #: Problems by table; the empty name is the job's own.
        self.problems: dict[str, tuple[str, str]] = {}

    def store(self) -> Mapping[str, Any] | None:
        """Store the new reports, and return the columns of the run that they change."""
        columns: dict[str, Any] | None = None
        while self._unstored:
            report = self._unstored[0]
            table = str(report.get("table") or "")
            try:
                if table and (report["state"] != "running" or "reached" in report):
                    _store_report(self._row.lake, table, report)
            except OperationalError:
                # The store is away for a moment: the report is stored the next time.
                connection.close()
                return columns
            if "problem" in report:
                self.problems[table] = (str(report["problem"]), str(report.get("remedy") or ""))
            columns = {"reading": "", "result": None}
            if report.get("state") == "running":
                columns = {"reading": table, "result": self._progress(table, report)}
            self._unstored.popleft()
            if self._on_report is not None:
                self._on_report(report)
        return columns

    def _progress(self, table: str, report: Report) -> dict[str, Any]:
        """Return which of the tables is read, and how many of its changes were, if it is known."""
        number = self._tables.index(table) + 1 if table in self._tables else None
        amounts = {name: report.get(name) for name in ("changes", "of")}
        return {"table": number, "tables": len(self._tables), **amounts}


def _store_report(lake: Lake, table: str, report: Report) -> None:
    """Store the facts that a run reported of a table; gaps of earlier runs stay."""
    row = LakeRelation.objects.filter(lake=lake, name=table).first()
    if row is None:
        return
    for name in _REPORTED:
        if name in report:
            setattr(row, name, report[name])
    row.gaps += [gap for gap in report.get("gaps", ()) if gap not in row.gaps]
    row.problem_cause = str(report.get("problem") or "")
    row.problem_remedy = str(report.get("remedy") or "")
    row.reported_at = timezone.now()
    row.save()


def arguments(row: LakeRun) -> list[str]:
    """Return the command line of the run's job."""
    tables = [relation.name for relation in row.lake.relations.all()]
    return lake_arguments(row.lake, row.action, tables, **row.words)


def carry_out(row: LakeRun, stop: threading.Event, on_report: OnReport | None = None) -> None:
    """Do a claimed run and store its outcome; ``on_report`` is called for each stored report."""
    end_leftovers(row.lake)
    try:
        _check(row)
        process = _RunProcess(row)
    except Refused as refused:
        rows.fail(row, refused.cause, refused.remedy)
        return
    except OSError as error:
        cause = f"the job cannot be started: {error.strerror}"
        rows.fail(row, cause, "See the data folder")
        return
    reports, after = _Reports(row, process, on_report), After.LOST
    try:
        rows.beat(row, worker=worker(), job_pid=process.pid, log_path=str(process.log_path))
        after = follow(rows, row, process.has_ended, stop, reports.store)
    finally:
        process.end()
    if after is After.ENDED:
        reports.store()
        _conclude(process, row, reports.problems)
    elif after is After.STOPPED and row.requested_how == LakeRun.How.COMMAND:
        # No worker continues a run that a command carries out.
        rows.cancel(row.pk)
    elif after is After.STOPPED:
        rows.give_back(row)


def _check(row: LakeRun) -> None:
    """Check the root again just before writing, and that the folders have the slot's name."""
    policy = read_policy()
    policy.check()
    check_again(row.lake.root, policy, anywhere=row.anywhere)
    lake = row.lake
    if lake.slot is None:
        cause = f"slot {lake.slot_name} was removed, and its record with it"
        raise Refused(cause, "Its tables stay as they are; replview lake remove forgets the lake")
    if str(lake.slot) != lake.slot_name:
        raise Refused(
            f"slot {lake.slot_name} is called {lake.slot} now, and the lake's folders are not",
            "Rename the source back, or add another lake",
        )


def _conclude(process: _RunProcess, row: LakeRun, problems: Mapping[str, tuple[str, str]]) -> None:
    """Store the outcome of a process that has ended by itself."""
    if process.status in (DONE, NOTHING_NEW, GAP):
        rows.finish(row, result={"status": process.status}, reading="")
        return
    if not problems:
        problems = {"": silent_end(process.status, "gave no result")}
    table, (cause, remedy) = next(iter(problems.items()))
    if len(problems) > 1:
        cause += f" (and {len(problems) - 1} more of its tables failed)"
    log.warning("run %s of lake %s, %s: %s", row.pk, row.lake, table or "its job", cause)
    rows.fail(row, cause, remedy, reading=table)


#: A lost worker's run is repeated from the lake's last commit.
KIND = rows.served(name="lake-run", run=carry_out, recover=recover)
