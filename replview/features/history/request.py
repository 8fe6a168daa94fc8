"""From the words of a form to a history job: which job, over which root, of what."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from replview.access.visibility import current_visibility
from replview.access.withheld import slot_of_life, withheld
from replview.jobs import history_jobs
from replview.parquet.reading.places import lsn_text
from replview.spark.history.commands import JOBS, lsn, moment
from replview.store.models import HistoryJob
from replview.store.read.visibility import NO_RIGHT
from replview.store.write.access_record import note
from replview.targets.policy import Refused, read_policy
from replview.targets.roots import root_of
from replview.text.parsing import whole_number

PERIODS = ("minute", "hour", "day", "week", "month")
#: A job's groups of options → the words of the form.
WORDS = {
    "table": ("table",),
    "tables": ("tables",),
    "moment": ("lsn", "time"),
    "span": ("from_lsn", "to_lsn", "since", "until"),
    "every": ("every",),
    "top": ("top",),
}
_LONGEST = 2_000
_MOST_TOP = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryWish:
    """What somebody wants, understood."""

    job: str
    root: str
    #: ``life`` and the job's own words, each as the command would read it.
    words: dict[str, str]


def fields_of(job: str) -> tuple[str, ...]:
    """The words a job takes. Raises ``Refused`` where there is no such job."""
    if job not in JOBS:
        raise Refused(f"there is no history job {job!r}", f"Choose one of {', '.join(JOBS)}")
    groups = JOBS[job][2]
    return tuple(word for group in groups for word in WORDS.get(group, ()))


def read_history_wish(words: Mapping[str, str], *, anywhere: bool) -> HistoryWish:
    """What these words ask for. Raises ``Refused``."""
    job = words.get("job", "")
    fields = fields_of(job)
    root = words.get("root", "")
    if not root:
        raise Refused("no root is named", "Export a slice first, or choose an archive")
    root = root_of(root, read_policy(), anywhere=anywhere)
    kept = {"life": words["life"]} if words.get("life") else {}
    for name in fields:
        text = words.get(name, "").strip()
        if not text:
            continue
        if len(text) > _LONGEST or not text.isprintable():
            raise Refused(f"{name} is not readable", "Write it anew")
        kept[name] = _READ.get(name, str)(text)
    if "table" in fields and "table" not in kept:
        raise Refused("no table is named", "Choose one")
    _check_rights(kept)
    if "lsn" in kept and "time" in kept:
        raise Refused("an LSN and a time are two moments", "Empty one of them")
    return HistoryWish(job=job, root=root, words=kept)


def _check_rights(words: dict[str, str]) -> None:
    """Raises ``Refused`` where whoever asks may not see what the job would read."""
    if not current_visibility().restricted:
        return
    slot = slot_of_life(words.get("life", ""))
    if slot is None:
        raise Refused("no incarnation of a slot that you may see is named", "Choose one")
    of = withheld(slot)
    named = [words["table"]] if "table" in words else words.get("tables", "").split(",")
    for name in filter(None, named):
        if of.hides(name):
            raise Refused(f"you have {NO_RIGHT} of {name}", "Ask an admin for the right")
    if not any(named) and of.hidden:
        raise Refused(
            f"you have {NO_RIGHT} of every table of {slot}", "Name tables, or ask an admin"
        )


def ask(wish: HistoryWish, *, by: str, anywhere: bool) -> HistoryJob:
    """Record it; a worker begins soon. Raises ``Refused``."""
    read_policy().check()
    row = history_jobs.request(wish.job, wish.root, wish.words, by=by, anywhere=anywhere)
    slot = slot_of_life(wish.words.get("life", ""))
    named = [wish.words.get("table", ""), *wish.words.get("tables", "").split(",")]
    note(
        "exported",
        subject=f"history job {row.pk}",
        source_id=slot.source_id if slot else None,
        tables=filter(None, named),
        details={"job": wish.job, "root": wish.root},
    )
    return row


def _lsn(text: str) -> str:
    try:
        return lsn_text(lsn(text))
    except argparse.ArgumentTypeError as error:
        raise Refused(str(error), "Copy one from a transaction") from None


def _time(text: str) -> str:
    try:
        return moment(text).isoformat()
    except argparse.ArgumentTypeError as error:
        raise Refused(str(error), "Write it as ISO 8601; without a zone it is UTC") from None


def _top(text: str) -> str:
    number = whole_number(text)
    if number is None or not 0 < number <= _MOST_TOP:
        raise Refused(f"{text!r} is no number of rows", f"Write one from 1 to {_MOST_TOP:,}")
    return str(number)


def _every(text: str) -> str:
    if text not in PERIODS:
        raise Refused(f"{text!r} is no period", f"Choose one of {', '.join(PERIODS)}")
    return text


_READ: Mapping[str, Callable[[str], Any]] = {
    "lsn": _lsn,
    "from_lsn": _lsn,
    "to_lsn": _lsn,
    "time": _time,
    "since": _time,
    "until": _time,
    "every": _every,
    "top": _top,
}
