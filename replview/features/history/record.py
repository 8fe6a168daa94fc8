"""The page of one history job: its duration, then its first rows and the doubts about them."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from django.utils import timezone

from replview.access.withheld import (
    Withheld,
    shown_cells,
    shown_counts,
    slot_of_incarnation,
    withheld,
)
from replview.features.history.job import rows
from replview.features.history.page import history_url
from replview.store.models import HistoryJob, Slot
from replview.store.read.transactions.filter_values import UNKNOWN_ACTOR
from replview.store.read.visibility import NO_RIGHT
from replview.store.write.access_record import viewed
from replview.text.addresses import actor_url, row_url, transactions_url
from replview.text.formats import age_words, count_words, plural, shortened
from replview.ui.job_pages import failed
from replview.ui.sentence import Sentence

#: Name of the job whose rows count changes by table and column.
COUNTS = "who-changed-what"
_TEXT_LIMIT = 160
_OPERATION_LETTERS = {"insert": "I", "update": "U", "delete": "D"}
#: Spark writes times in another form than the server, so such a key would not be found.
_TIME_PATTERN = re.compile(r"-?\d+-\d\d-\d\d")
_SPAN_PARAMETERS = ("since", "until", "from_lsn", "to_lsn")


@dataclass(frozen=True, slots=True)
class ResultCell:
    """One cell of the result."""

    text: str
    #: True if there is no value, or it is unknown.
    unknown: bool = False
    number: bool = False
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRecord:
    """The content of a history job's page."""

    row: HistoryJob
    sentence: Sentence
    figures: list[dict[str, Any]]
    columns: list[ResultCell] = field(default_factory=list)
    rows: list[list[ResultCell]] = field(default_factory=list)
    #: True if the Parquet files have more rows than these.
    more: bool = False
    #: Reasons why the rows may be incomplete.
    reasons: list[str] = field(default_factory=list)
    #: Other facts that the job reported.
    reported: list[tuple[str, str]] = field(default_factory=list)
    again_url: str = ""


def read_history_record(row: HistoryJob) -> HistoryRecord:
    """Return the content of a history job's page."""
    incarnation = str(row.words.get("incarnation") or "")
    slot = slot_of_incarnation(incarnation)
    rights = withheld(slot, name=incarnation)
    result = _visible_result(row, row.result or {}, slot, rights)
    rows = cells_of(row, result, slot, rights)
    names = [str(name) for name in result.get("columns") or []]
    return HistoryRecord(
        row=row,
        sentence=_sentence(row, result),
        figures=_figures(row, result) if "rows" in result else [],
        columns=[
            ResultCell(name, number=bool(rows) and rows[0][n].number)
            for n, name in enumerate(names)
        ],
        rows=rows,
        more=bool(result.get("more")),
        reasons=[str(reason) for reason in result.get("reasons") or []],
        reported=[(name, text_of(value) or "unknown") for name, value in _reported_facts(result)],
        again_url=history_url({"job": row.job, "root": row.root, **row.words}),
    )


def _visible_result(
    row: HistoryJob, result: Mapping[str, Any], slot: Slot | None, rights: Withheld
) -> Mapping[str, Any]:
    """Return the result as the reader may see it now: rules may be newer than the job."""
    table = _table_name(row, result)
    if "rows" not in result:
        return result
    columns = [str(name) for name in result.get("columns") or []]
    if row.job == COUNTS:
        visible_rows = shown_counts(columns, result["rows"], rights)
        reported = _details(result)
        if len(visible_rows) < len(result["rows"]):
            reported["withheld"] = "columns that you may not see"
        return {**result, "rows": visible_rows, "details": reported}
    if not table:
        return result
    if not rights.hides(table):
        viewed(
            tables=[table], rows=len(result["rows"]), subject=f"history job {row.pk}",
            source_id=slot.source_id if slot else None,
        )  # fmt: skip
    return {**result, "rows": shown_cells(table, columns, result["rows"], rights)}


def _details(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that the job reported beside its rows."""
    return dict(result.get("details") or {})


def _table_name(row: HistoryJob, result: Mapping[str, Any]) -> str:
    """Return the table's present name; the request may have used a former one."""
    return str(_details(result).get("table") or row.words.get("table") or "")


def _sentence(row: HistoryJob, result: Mapping[str, Any]) -> Sentence:
    by = f"Requested by {row.requested_by}."
    if row.state == HistoryJob.State.WAITING:
        return Sentence(level="idle", title=_waiting_title(row), cause=by)
    if row.state == HistoryJob.State.RUNNING:
        title = f"Running for {age_words(_seconds(row) or 0)}{_reading_text(result)}."
        return Sentence(level="idle", title=title, cause=by)
    if row.state == HistoryJob.State.CANCELLED:
        return Sentence(level="idle", title="Cancelled:", cause="its result was deleted.")
    if row.state == HistoryJob.State.FAILED:
        return failed(row)
    title = f"Done: {_rows_text(result)}{_engine_text(result)}."
    if result.get("complete"):
        cause = "Complete: all input is exported."
        return Sentence(level="ok", title=title, cause=cause)
    reasons = [str(reason) for reason in result.get("reasons") or []]
    more = f" ({len(reasons) - 1} more below)" if len(reasons) > 1 else ""
    explanation = f"{reasons[0]}{more}" if reasons else "why is unknown"
    return Sentence(level="look", title=title, cause=f"Not complete: {explanation}.")


def _engine_name(result: Mapping[str, Any]) -> str:
    """Return the engine, such as ``DuckDB in the worker``; empty: unknown."""
    name = _details(result).get("answered_by")
    return f"{name} in the worker" if name == "DuckDB" else str(name or "")


def _reading_text(result: Mapping[str, Any]) -> str:
    rows = _details(result).get("rows_read")
    return f": {_engine_name(result)} reads {plural(rows, 'row')}" if type(rows) is int else ""


def _engine_text(result: Mapping[str, Any]) -> str:
    return f", answered by {engine}" if (engine := _engine_name(result)) else ""


def _waiting_title(row: HistoryJob) -> str:
    jobs_before = rows.rows(rows.unended, pk__lt=row.pk).count()
    if not jobs_before:
        return "Waiting for a worker."
    return f"Waiting: {plural(jobs_before, 'job comes', 'jobs come')} first."


def _rows_text(result: Mapping[str, Any]) -> str:
    rows = len(result.get("rows") or [])
    return f"more than {plural(rows, 'row')}" if result.get("more") else plural(rows, "row")


def _figures(row: HistoryJob, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = len(result["rows"])
    seconds, rows_read = _seconds(row), _details(result).get("rows_read")
    complete = {True: "yes", False: "no"}.get(result.get("complete", ""))
    return [
        {
            "label": "Rows",
            "number": count_words(rows),
            "rest": "shown, of more" if result.get("more") else "",
            "main": True,
        },
        {"label": "Rows read", "number": None if rows_read is None else count_words(rows_read)},
        {"label": "Complete", "number": complete},
        {"label": "Time", "number": None if seconds is None else age_words(max(seconds, 1.0))},
        {"label": "Asked by", "number": row.requested_by},
    ]


def _seconds(row: HistoryJob) -> float | None:
    if row.started_at is None:
        return None
    end: dt.datetime = row.finished_at or timezone.now()
    return (end - row.started_at).total_seconds()


def _reported_facts(result: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the reported facts; maps are flattened, each entry with its own name."""
    facts: list[tuple[str, Any]] = []
    for name, value in _details(result).items():
        if name in ("answered_by", "rows_read"):
            # The sentence and the figures show these.
            continue
        label = str(name).replace("_", " ")
        if isinstance(value, dict):
            facts += [(f"{label}: {key.replace('_', ' ')}", entry) for key, entry in value.items()]
        else:
            facts.append((label, ", ".join(map(str, value)) if isinstance(value, list) else value))
    return facts


def cells_of(
    row: HistoryJob, result: Mapping[str, Any], slot: Slot | None, rights: Withheld
) -> list[list[ResultCell]]:
    """Return the rows as cells, with links if the slot still exists."""
    columns = [str(name) for name in result.get("columns") or []]
    rows: Sequence[Sequence[Any]] = result.get("rows") or []
    number_columns = {
        n for n in range(len(columns)) if _are_numbers([values[n] for values in rows])
    }
    cell_rows = [
        [_cell(value, n in number_columns) for n, value in enumerate(values)] for values in rows
    ]
    if row.job == COUNTS:
        span = {name: str(row.words.get(name) or "") for name in _SPAN_PARAMETERS}
        return [
            _counted_cells(columns, *pair, slot, span) for pair in zip(rows, cell_rows, strict=True)
        ]
    table = _table_name(row, result)
    key = [str(name) for name in _details(result).get("key") or []]
    if (
        slot is None
        or not table
        or not key
        or rights.hides(table)
        or rights.columns(table, key) & {*key}
    ):
        return cell_rows
    return [
        _linked_cells(columns, *pair, slot, table, key)
        for pair in zip(rows, cell_rows, strict=True)
    ]


def text_of(value: object) -> str | None:
    """Return a value as text, cut if it is long."""
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return shortened(text, _TEXT_LIMIT)


def _are_numbers(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(type(value) in (int, float) for value in present)


def _cell(value: object, number: bool) -> ResultCell:
    text = text_of(value)
    return (
        ResultCell("null", unknown=True, number=number)
        if text is None
        else ResultCell(text, number=number)
    )


def _counted_cells(
    columns: Sequence[str], values: Sequence[Any], cells: list[ResultCell], slot: Slot | None,
    span: Mapping[str, str],
) -> list[ResultCell]:  # fmt: skip
    """Return a row of counts with names in words, whose number links to those transactions."""
    details, index = dict(zip(columns, values, strict=True)), columns.index
    counted = list(cells)
    actor, operation, count = details["actor"], str(details["operation"]), details.get("changes")
    if actor is None:
        counted[index("actor")] = ResultCell("nobody named", unknown=True)
    elif slot is not None:
        counted[index("actor")] = replace(cells[index("actor")], url=actor_url(slot, str(actor)))
    if details["column"] is None:
        whole = operation in ("insert", "delete")
        counted[index("column")] = ResultCell(
            "the whole row" if whole else "unknown", unknown=not whole
        )
    if count is None:
        counted[index("changes")] = ResultCell("withheld", unknown=True, number=True)
    elif slot is not None and details["column"] != NO_RIGHT:
        letter = _OPERATION_LETTERS.get(operation.partition(",")[0], "")
        params = {"tables": str(details["table"]), "ops": letter, **span}
        actor_param = UNKNOWN_ACTOR if actor is None else str(actor)
        address = transactions_url(
            slot, actor=actor_param, **{k: v for k, v in params.items() if v}
        )
        counted[index("changes")] = ResultCell(count_words(int(count)), number=True, url=address)
    return counted


def _linked_cells(
    columns: Sequence[str],
    values: Sequence[object],
    cells: list[ResultCell],
    slot: Slot,
    table: str,
    key: Sequence[str],
) -> list[ResultCell]:
    """Return the cells with a link from the row's key to its history, if the key can be found."""
    by_column = dict(zip(columns, values, strict=True))
    parts = {name: by_column.get(name) for name in key}
    if not all(type(part) is int or _is_plain(part) for part in parts.values()):
        return cells
    schema, _, name = table.partition(".")
    url = row_url(slot, schema, name, {key_column: str(part) for key_column, part in parts.items()})
    return [
        replace(cell, url=url) if column == key[0] else cell
        for column, cell in zip(columns, cells, strict=True)
    ]


def _is_plain(part: object) -> bool:
    return isinstance(part, str) and not _TIME_PATTERN.match(part) and len(part) <= _TEXT_LIMIT
