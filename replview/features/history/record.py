"""One history job as its page shows it: how long it runs, then its first rows and their doubts."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from replview.access.withheld import (
    Withheld,
    shown_cells,
    shown_counts,
    slot_of_life,
    withheld,
)
from replview.features.exports.text import Sentence
from replview.features.history.cells import COUNTS, Cell, cells_of, text_of
from replview.features.history.page import history_url
from replview.jobs.history_jobs import WAITING
from replview.store.models import HistoryJob, Slot
from replview.store.write.access_record import viewed
from replview.text.formats import age_words, count_words, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRecord:
    """All the template needs."""

    row: HistoryJob
    sentence: Sentence
    figures: list[dict[str, Any]]
    columns: list[Cell] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    #: There are more than these in the Parquet.
    more: bool = False
    #: Why the rows may not be the whole truth.
    reasons: list[str] = field(default_factory=list)
    #: What else the job told.
    told: list[tuple[str, str]] = field(default_factory=list)
    again_url: str = ""


def read_history_record(row: HistoryJob) -> HistoryRecord:
    """The job as of now."""
    life = str(row.words.get("life") or "")
    slot = slot_of_life(life)
    of = withheld(slot, name=life)
    result = _seen(row, row.result or {}, slot, of)
    rows = cells_of(row, result, slot, of)
    names = [str(name) for name in result.get("columns") or []]
    return HistoryRecord(
        row=row,
        sentence=_sentence(row, result),
        figures=_figures(row, result) if "rows" in result else [],
        columns=[
            Cell(name, number=bool(rows) and rows[0][n].number) for n, name in enumerate(names)
        ],
        rows=rows,
        more=bool(result.get("more")),
        reasons=[str(reason) for reason in result.get("reasons") or []],
        told=[(name, text_of(value) or "unknown") for name, value in _told(result)],
        again_url=history_url({"job": row.job, "root": row.root, **row.words}),
    )


def _seen(
    row: HistoryJob, result: Mapping[str, Any], slot: Slot | None, of: Withheld
) -> Mapping[str, Any]:
    """What it gave, as whoever looks may see it now: rules may have come since it ran."""
    table = str(row.words.get("table") or "")
    if "rows" not in result:
        return result
    columns = [str(name) for name in result.get("columns") or []]
    if row.job == COUNTS:
        shown = shown_counts(columns, result["rows"], of)
        told = dict(result.get("told") or {})
        if len(shown) < len(result["rows"]):
            told["withheld"] = "columns that you may not see"
        return {**result, "rows": shown, "told": told}
    if not table:
        return result
    if not of.hides(table):
        viewed(
            tables=[table], rows=len(result["rows"]), subject=f"history job {row.pk}",
            source_id=slot.source_id if slot else None,
        )  # fmt: skip
    return {**result, "rows": shown_cells(table, columns, result["rows"], of)}


def _sentence(row: HistoryJob, result: Mapping[str, Any]) -> Sentence:
    by = f"Asked for by {row.requested_by}."
    if row.state == HistoryJob.State.WAITING:
        return Sentence(level="idle", title=_waiting(row), cause=by)
    if row.state == HistoryJob.State.RUNNING:
        title = f"Running for {age_words(_seconds(row) or 0)}."
        return Sentence(level="idle", title=title, cause=by)
    if row.state == HistoryJob.State.CANCELLED:
        return Sentence(level="idle", title="Cancelled:", cause="nothing of it is kept.")
    if row.state == HistoryJob.State.FAILED:
        remedy = row.problem_remedy
        next_ = f"{remedy[:1].lower()}{remedy[1:].rstrip('.')}." if remedy else "see the log."
        return Sentence(level="now", title="Failed:", cause=f"{row.problem_cause}.", next=next_)
    title = f"Done: {_rows_words(result)}."
    if result.get("complete"):
        cause = "Complete: all that it takes is exported."
        return Sentence(level="ok", title=title, cause=cause)
    reasons = [str(reason) for reason in result.get("reasons") or []]
    more = f" ({len(reasons) - 1} more below)" if len(reasons) > 1 else ""
    why = f"{reasons[0]}{more}" if reasons else "why is unknown"
    return Sentence(level="look", title=title, cause=f"Not complete: {why}.")


def _waiting(row: HistoryJob) -> str:
    before = HistoryJob.objects.filter(state__in=WAITING, pk__lt=row.pk).count()
    if not before:
        return "Waiting for a worker."
    return f"Waiting: {plural(before, 'job comes', 'jobs come')} first."


def _rows_words(result: Mapping[str, Any]) -> str:
    rows = len(result.get("rows") or [])
    return f"more than {plural(rows, 'row')}" if result.get("more") else plural(rows, "row")


def _figures(row: HistoryJob, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = len(result["rows"])
    seconds = _seconds(row)
    complete = {True: "yes", False: "no"}.get(result.get("complete", ""))
    return [
        {
            "label": "Rows",
            "number": count_words(rows),
            "rest": "shown, of more" if result.get("more") else "",
            "main": True,
        },
        {"label": "Complete", "number": complete},
        {"label": "Time", "number": None if seconds is None else age_words(max(seconds, 1.0))},
        {"label": "Asked by", "number": row.requested_by},
    ]


def _seconds(row: HistoryJob) -> float | None:
    if row.started_at is None:
        return None
    end: dt.datetime = row.finished_at or timezone.now()
    return (end - row.started_at).total_seconds()


def _told(result: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Maps within it by their own names."""
    found: list[tuple[str, Any]] = []
    for name, value in dict(result.get("told") or {}).items():
        words = str(name).replace("_", " ")
        if isinstance(value, dict):
            found += [(f"{words}: {key.replace('_', ' ')}", each) for key, each in value.items()]
        else:
            found.append((words, ", ".join(map(str, value)) if isinstance(value, list) else value))
    return found
