"""A request for a history job: the parameters of a form become a job over a root.

The root is the archive, or the target of an export.
"""

import argparse
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from replview.access.visibility import current_visibility
from replview.access.withheld import slot_of_incarnation, withheld
from replview.features.history.job import rows
from replview.parquet.reading.places import lsn_text
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
_PATIENCE_SECONDS = 5.0
_MOST = 200
#: Parameters of the form for each group of a job's options.
WORDS = {
    "table": ("table",), "tables": ("tables",), "moment": ("lsn", "time"),
    "span": ("from_lsn", "to_lsn", "since", "until"), "every": ("every",), "top": ("top",),
}  # fmt: skip
_LONGEST = 2_000
_MOST_TOP = 1_000


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
    found: dict[str, HistoryRoot] = {}
    if (target := archive.chosen().target) is not None:
        found[target] = HistoryRoot(target, "the archive")
    done = Export.objects.filter(state=Export.State.DONE).exclude(target__contains="://")
    for pk, url in done.values_list("pk", "target")[:_MOST]:
        found.setdefault(url, HistoryRoot(url, f"export {pk}"))
    return list(found.values())


def root_of(text: str, policy: Policy, *, anywhere: bool) -> str:
    """Return a known root, or one that the account may export to. Raises ``Refused``."""
    if text in {root.url for root in known_roots()}:
        return text
    return target_of(text, policy, anywhere=anywhere)


def incarnations_there(root: str) -> list[IncarnationThere]:
    """Return the incarnations that were exported to a root. Raises ``Refused``."""
    found: list[list[IncarnationThere] | Refused] = []
    read = threading.Thread(target=lambda: found.append(_read(root)), daemon=True, name="root")
    read.start()
    read.join(_PATIENCE_SECONDS)
    if not found:
        raise Refused(
            f"listing the exports takes longer than {_PATIENCE_SECONDS:.0f} s",
            "Write the incarnation and the table yourself",
        )
    if isinstance(found[0], Refused):
        raise found[0]
    if not current_visibility().restricted:
        return found[0]
    # A slot or table that is hidden from the reader is left out.
    seen = []
    for incarnation in found[0]:
        if (slot := slot_of_incarnation(incarnation.name)) is not None:
            of = withheld(slot)
            tables = tuple(name for name in incarnation.tables if not of.hides(name))
            seen.append(IncarnationThere(incarnation.name, tables))
    return seen


def _read(root: str) -> list[IncarnationThere] | Refused:
    try:
        return [
            IncarnationThere(one.name, tuple(sorted(one.names)))
            for one in ExportedIncarnation.all(Target.of(root))
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
    #: ``life`` (the incarnation) and the job's own parameters, each as the command reads it.
    words: dict[str, str]


def fields_of(job: str) -> tuple[str, ...]:
    """Return the parameters of a job. Raises ``Refused`` where there is no such job."""
    if job not in JOBS:
        raise Refused(f"there is no history job {job!r}", f"Choose one of {', '.join(JOBS)}")
    groups = JOBS[job][1]
    return tuple(word for group in groups for word in WORDS.get(group, ()))


def read_history_request(words: Mapping[str, str], *, anywhere: bool) -> HistoryRequest:
    """Return the job that the parameters mean. Raises ``Refused``."""
    job = words.get("job", "")
    fields = fields_of(job)
    root = words.get("root", "")
    if not root:
        raise Refused("no folder is given", "Create an export first, or choose an archive")
    root = root_of(root, read_policy(), anywhere=anywhere)
    kept = {"life": words["life"]} if words.get("life") else {}
    for name in fields:
        text = words.get(name, "").strip()
        if not text:
            continue
        if len(text) > _LONGEST or not text.isprintable():
            raise Refused(f"{name} is not readable", "Write it again")
        kept[name] = _read_word(name, text)
    if "table" in fields and "table" not in kept:
        raise Refused("no table is given", "Choose one")
    _check_rights(kept)
    if "lsn" in kept and "time" in kept:
        raise Refused("give either an LSN or a time", "Clear one of them")
    return HistoryRequest(job=job, root=root, words=kept)


def _check_rights(words: dict[str, str]) -> None:
    """Raise ``Refused`` where the reader may not see what the job would read."""
    if not current_visibility().restricted:
        return
    slot = slot_of_incarnation(words.get("life", ""))
    if slot is None:
        raise Refused("no incarnation of a slot that you may see is named", "Choose one")
    of = withheld(slot)
    named = [words["table"]] if "table" in words else words.get("tables", "").split(",")
    for name in filter(None, named):
        # If several tables have the name, one is chosen by a suffix with its oid.
        if of.hides(name) or of.hides(re.sub(r"-\d+$", "", name)):
            raise Refused(f"you have {NO_RIGHT} of {name}", "Ask an admin for the right")
    if not any(named) and of.hidden:
        cause = f"you have {NO_RIGHT} of every table of {slot}"
        raise Refused(cause, "Name tables, or ask an admin")


def ask(history_request: HistoryRequest, *, by: str, anywhere: bool) -> HistoryJob:
    """Record the job, which a worker starts soon. Raises ``Refused``."""
    read_policy().check()
    what, words = {"job": history_request.job, "root": history_request.root}, history_request.words
    row = HistoryJob.objects.create(**what, words=dict(words), requested_by=by, anywhere=anywhere)
    rows.announce()
    slot = slot_of_incarnation(words.get("life", ""))
    named = filter(None, [words.get("table", ""), *words.get("tables", "").split(",")])
    note("exported", subject=f"history job {row.pk}", source_id=slot.source_id if slot else None,
         tables=named, details=what)  # fmt: skip
    return row


def _read_word(name: str, text: str) -> str:
    """Return a parameter as the command reads it. Raises ``Refused``."""
    try:
        match name:
            case "lsn" | "from_lsn" | "to_lsn":
                remedy = "Copy one from a transaction"
                return lsn_text(lsn(text))
            case "time" | "since" | "until":
                remedy = "Write it as ISO 8601; without a zone it is UTC"
                return moment(text).isoformat()
    except argparse.ArgumentTypeError as error:
        raise Refused(str(error), remedy) from None
    if name == "every" and text not in PERIODS:
        raise Refused(f"{text!r} is no period", f"Choose one of {', '.join(PERIODS)}")
    if name == "top":
        number = whole_number(text)
        if number is None or not 0 < number <= _MOST_TOP:
            raise Refused(f"{text!r} is no number of rows", f"Write one from 1 to {_MOST_TOP:,}")
        return str(number)
    return text
