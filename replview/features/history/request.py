"""A request for a history job: the parameters of a form become a job over a root.

The root is the archive, or the target of an export.
"""

import argparse
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from decoder.scalars import LSN
from replview.access.visibility import current_visibility
from replview.access.withheld import slot_of_incarnation, withheld
from replview.features.history.job import rows
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.history.commands import JOBS, PERIODS, lsn, moment
from replview.spark.history.datasets import ExportedIncarnation
from replview.store.models import Export, HistoryJob
from replview.store.read.visibility import NO_RIGHT
from replview.store.retention import archive
from replview.store.write.access_record import note
from replview.targets.policy import Policy, Refused, read_policy, target_of
from replview.text.parsing import whole_number

#: Seconds that a page may spend on listing folders of an object store.
_LISTING_SECONDS = 5.0
_ROOTS_LIMIT = 200
#: Parameters of the form for each group of a job's options.
GROUP_PARAMETERS = {
    "table": ("table",), "tables": ("tables",), "moment": ("lsn", "time"),
    "span": ("from_lsn", "to_lsn", "since", "until"), "every": ("every",), "top": ("top",),
}  # fmt: skip
_TEXT_LIMIT = 2_000
_TOP_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class HistoryRoot:
    """A folder or URL to which slices were written."""

    url: str
    #: Description, such as ``the archive`` or ``export 12``.
    what: str


@dataclass(frozen=True, slots=True)
class IncarnationThere:
    """An incarnation of a slot below a root (``source/slot-number``), with its tables."""

    name: str
    tables: tuple[str, ...]


def known_roots() -> list[HistoryRoot]:
    """Return the archive, and the folder of every finished export, newest first."""
    roots: dict[str, HistoryRoot] = {}
    if (target := archive.chosen().target) is not None:
        roots[target] = HistoryRoot(target, "the archive")
    exports = Export.objects.filter(state=Export.State.DONE).exclude(target__contains="://")
    for pk, url in exports.values_list("pk", "target")[:_ROOTS_LIMIT]:
        roots.setdefault(url, HistoryRoot(url, f"export {pk}"))
    return list(roots.values())


def root_of(text: str, policy: Policy, *, anywhere: bool) -> str:
    """Return a known root, or one that the account may export to. Raises ``Refused``."""
    if text in {root.url for root in known_roots()}:
        return text
    return target_of(text, policy, anywhere=anywhere)


def incarnations_there(root: str) -> list[IncarnationThere]:
    """Return the incarnations that were exported to a root. Raises ``Refused``."""
    results: list[list[IncarnationThere] | Refused] = []
    thread = threading.Thread(
        target=lambda: results.append(_list_incarnations(root)), daemon=True, name="root"
    )
    thread.start()
    thread.join(_LISTING_SECONDS)
    if not results:
        raise Refused(
            f"listing the exports takes longer than {_LISTING_SECONDS:.0f} s",
            "Write the incarnation and the table yourself",
        )
    if isinstance(results[0], Refused):
        raise results[0]
    if not current_visibility().restricted:
        return results[0]
    # A slot or table that is hidden from the reader is left out.
    visible = []
    for incarnation in results[0]:
        if (slot := slot_of_incarnation(incarnation.name)) is not None:
            rights = withheld(slot)
            tables = tuple(name for name in incarnation.tables if not rights.hides(name))
            visible.append(IncarnationThere(incarnation.name, tables))
    return visible


def _list_incarnations(root: str) -> list[IncarnationThere] | Refused:
    try:
        return [
            IncarnationThere(incarnation.name, tuple(sorted(incarnation.names)))
            for incarnation in ExportedIncarnation.all(Target.of(root))
        ]
    except TargetProblem as problem:
        return Refused(problem.cause, problem.remedy)
    except (OSError, pa.ArrowException) as error:
        return Refused(f"it cannot be listed ({type(error).__name__})", "Check the address")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """A history job to run, with its checked parameters."""

    job: str
    root: str
    #: ``incarnation`` and the job's own parameters, each as the command reads it.
    words: dict[str, str]


def fields_of(job: str) -> tuple[str, ...]:
    """Return the parameters of a job. Raises ``Refused`` where there is no such job."""
    if job not in JOBS:
        raise Refused(f"there is no history job {job!r}", f"Choose one of {', '.join(JOBS)}")
    groups = JOBS[job][1]
    return tuple(param for group in groups for param in GROUP_PARAMETERS.get(group, ()))


def read_history_request(params: Mapping[str, str], *, anywhere: bool) -> HistoryRequest:
    """Return the job that the parameters mean. Raises ``Refused``."""
    job = params.get("job", "")
    fields = fields_of(job)
    root = params.get("root", "")
    if not root:
        raise Refused("no folder is given", "Create an export first, or choose an archive")
    root = root_of(root, read_policy(), anywhere=anywhere)
    job_params = {"incarnation": params["incarnation"]} if params.get("incarnation") else {}
    for name in fields:
        value = params.get(name, "").strip()
        if not value:
            continue
        if len(value) > _TEXT_LIMIT or not value.isprintable():
            raise Refused(f"{name} is not readable", "Write it again")
        job_params[name] = _read_param(name, value)
    if "table" in fields and "table" not in job_params:
        raise Refused("no table is given", "Choose one")
    _check_rights(job_params)
    if "lsn" in job_params and "time" in job_params:
        raise Refused("give either an LSN or a time", "Clear one of them")
    return HistoryRequest(job=job, root=root, words=job_params)


def _check_rights(params: dict[str, str]) -> None:
    """Raise ``Refused`` where the reader may not see what the job would read."""
    if not current_visibility().restricted:
        return
    slot = slot_of_incarnation(params.get("incarnation", ""))
    if slot is None:
        raise Refused("no incarnation of a slot that you may see is named", "Choose one")
    rights = withheld(slot)
    table_names = [params["table"]] if "table" in params else params.get("tables", "").split(",")
    for name in filter(None, table_names):
        # If several tables have the name, one is chosen by a suffix with its oid.
        if rights.hides(name) or rights.hides(re.sub(r"-\d+$", "", name)):
            raise Refused(f"you have {NO_RIGHT} of {name}", "Ask an admin for the right")
    if not any(table_names) and rights.hidden:
        cause = f"you have {NO_RIGHT} of every table of {slot}"
        raise Refused(cause, "Name tables, or ask an admin")


def ask(history_request: HistoryRequest, *, by: str, anywhere: bool) -> HistoryJob:
    """Record the job, which a worker starts soon. Raises ``Refused``."""
    read_policy().check()
    job, params = {"job": history_request.job, "root": history_request.root}, history_request.words
    row = HistoryJob.objects.create(**job, words=dict(params), requested_by=by, anywhere=anywhere)
    rows.announce()
    slot = slot_of_incarnation(params.get("incarnation", ""))
    table_names = filter(None, [params.get("table", ""), *params.get("tables", "").split(",")])
    note("exported", subject=f"history job {row.pk}", source_id=slot.source_id if slot else None,
         tables=table_names, details=job)  # fmt: skip
    return row


def _read_param(name: str, value: str) -> str:
    """Return a parameter as the command reads it. Raises ``Refused``."""
    try:
        match name:
            case "lsn" | "from_lsn" | "to_lsn":
                remedy = "Copy one from a transaction"
                return str(LSN(lsn(value)))
            case "time" | "since" | "until":
                remedy = "Write it as ISO 8601; without a zone it is UTC"
                return moment(value).isoformat()
    except argparse.ArgumentTypeError as error:
        raise Refused(str(error), remedy) from None
    if name == "every" and value not in PERIODS:
        raise Refused(f"{value!r} is no period", f"Choose one of {', '.join(PERIODS)}")
    if name == "top":
        number = whole_number(value)
        if number is None or not 0 < number <= _TOP_LIMIT:
            raise Refused(f"{value!r} is no number of rows", f"Write one from 1 to {_TOP_LIMIT:,}")
        return str(number)
    return value
