"""The page of one export: progress, then files, a preview of rows, and reading programs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.parquet as pq

from replview.access.visibility import current_visibility
from replview.access.withheld import shown_cells, shown_words, withheld
from replview.features.exports.files import files_of
from replview.features.exports.page import OWN_PARAMETERS, export_url
from replview.features.exports.reading_back import ReadingBack, reading_after, written
from replview.features.exports.request import BEGINNINGS
from replview.features.exports.tags import took_words
from replview.parquet.archive.changes import file_columns
from replview.parquet.writing.layout import decoded
from replview.store.models import Export
from replview.store.read.visibility import NO_RIGHT
from replview.store.write.access_record import viewed
from replview.targets.policy import Refused
from replview.text.formats import age_words, bytes_words, count_words, plural, shortened
from replview.ui.job_pages import failed
from replview.ui.sentence import Sentence

_FILES_SHOWN = 200
_PREVIEW_ROWS = 8
_PREVIEW_COLUMNS = 12
_CELL_CHARACTERS = 80
#: Columns whose values come from logical messages.
_MESSAGE_COLUMNS = ("context", "content", "content_base64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The first rows of one of an export's files."""

    path: str
    columns: list[str]
    rows: list[list[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """The content of an export's page."""

    row: Export
    sentence: Sentence
    figures: list[dict[str, Any]]
    #: Progress in thousandths; None: unknown.
    width: int | None
    datasets: list[dict[str, Any]] = field(default_factory=list)
    files: list[Mapping[str, Any]] = field(default_factory=list)
    files_more: int = 0
    preview: Preview | None = None
    reading: ReadingBack | None = None
    again_url: str = ""
    since_last_url: str = ""
    #: The reason why the files cannot be downloaded; empty: they can.
    no_download: str = ""

    @property
    def progress(self) -> str:
        """Return the progress in words, such as ``1,204 of 9,000 rows``; empty: unknown."""
        if self.row.rows is None or self.row.total_rows is None:
            return ""
        return f"{count_words(self.row.rows)} of {count_words(self.row.total_rows)} rows"

    @property
    def reading_of(self) -> list[tuple[str, str]]:
        """Return the tables for which reading programs can be shown, each with its address."""
        names = self.reading.tables if self.reading else []
        return [(name, f"?{urlencode({'read': name})}") for name in names]


def read_record(row: Export, *, read: str = "") -> ExportRecord:
    """Return the content of an export's page; ``read`` is the table whose programs are shown."""
    repeat_params = {
        param: value for param, value in shown_words(row).items() if param not in OWN_PARAMETERS
    }
    repeat_params |= {"slot": row.slot_name, "to": row.target}
    range_params = (*BEGINNINGS, "until", "to_lsn")
    since_last_params = {
        param: value for param, value in repeat_params.items() if param not in range_params
    }
    since_last_params |= {"name": row.name, "since_last": "1"}
    if row.name and row.slice.get("after_seq") and "transaction" not in repeat_params:
        # The export continued an earlier one, and its repetition has to do so, too.
        repeat_params |= {"name": row.name, "since_last": "1"}
    files = list((row.result or {}).get("files") or [])
    done = row.state == Export.State.DONE
    return ExportRecord(
        row=row,
        sentence=_sentence(row),
        figures=_figures(row),
        width=_width(row),
        datasets=_datasets(files),
        files=files[:_FILES_SHOWN],
        files_more=max((row.files or 0) - _FILES_SHOWN, 0),
        preview=preview_of(row) if done else None,
        reading=reading_after(row, read) if done else None,
        no_download=_download_refusal(row) if done else "",
        again_url=export_url(repeat_params),
        since_last_url=export_url(since_last_params) if row.name and done else "",
    )


def _download_refusal(row: Export) -> str:
    try:
        files_of(row)
    except Refused as refused:
        return f"{refused.cause}. {refused.remedy}."
    except OSError:
        return "The files were deleted."
    return ""


def _sentence(row: Export) -> Sentence:
    rows = "unknown" if row.rows is None else count_words(row.rows)
    by = f"requested by {row.requested_by}"
    match row.state:
        case Export.State.WAITING:
            return Sentence(level="idle", title="Waiting for a worker,", cause=f"{by}.")
        case Export.State.RUNNING:
            left = "" if row.seconds_left is None else f", about {age_words(row.seconds_left)} left"
            progress = "reading" if row.rows is None else f"{rows} rows"
            title = f"Exporting: {progress}{left}."
            return Sentence(level="idle", title=title, cause=f"{by.capitalize()}.")
        case Export.State.DONE:
            size = "" if row.size_bytes is None else f", {bytes_words(row.size_bytes)}"
            took = f" in {duration}" if (duration := took_words(row)) else ""
            title = f"Done: {rows} rows in {plural(row.files or 0, 'file')}{size}{took}."
            return Sentence(level="ok", title=title, cause=f"{by.capitalize()}.")
        case Export.State.CANCELLED:
            cause = "its files were deleted."
            return Sentence(level="idle", title="Cancelled:", cause=cause)
    return failed(row)


def _figures(row: Export) -> list[dict[str, Any]]:
    def number(value: float | None, format_value: Callable[[Any], str]) -> str | None:
        return None if value is None else format_value(value)

    total = "" if row.total_rows is None else f"of {count_words(row.total_rows)}"
    last: dict[str, object] = {
        "label": "Asked by",
        "number": row.requested_by,
        "rest": f"by {row.requested_how}",
    }
    if row.waits:
        last = {"label": "Time left", "number": number(row.seconds_left, age_words)}
    rows = {"label": "Rows", "number": number(row.rows, count_words), "rest": total, "main": True}
    return [
        rows,
        {"label": "Files", "number": number(row.files, count_words)},
        {"label": "Size", "number": number(row.size_bytes, bytes_words)},
        last,
    ]


def _width(row: Export) -> int | None:
    if row.state == Export.State.DONE:
        return 1000
    if not row.total_rows or row.rows is None:
        return None
    return round(1000 * min(row.rows / row.total_rows, 1))


def _datasets(files: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the number of files, rows and bytes of each folder."""
    datasets: dict[str, dict[str, Any]] = {}
    for file in files:
        # The folder's own name, decoded, is the table's name.
        name = decoded(str(file.get("dataset") or "unknown").rpartition("/")[2])
        sums = datasets.setdefault(name, {"name": name, "rows": 0, "bytes": 0, "files": 0})
        sums["rows"] += int(file.get("rows") or 0)
        sums["bytes"] += int(file.get("bytes") or 0)
        sums["files"] += 1
    return list(datasets.values())


def preview_of(row: Export) -> Preview | None:
    """Return the first rows of the first table's first file; None if it is not on this machine."""
    files = [entry for entry in (row.result or {}).get("files") or [] if entry.get("rows")]
    if not files or "://" in row.target:
        return None
    # A table's rows are more informative than the transactions'.
    chosen = next((f for f in files if "." in str(f.get("dataset", "")).rpartition("/")[2]), None)
    chosen = chosen or files[0]
    try:
        with pq.ParquetFile(written(row, str(chosen["path"]))) as file:
            schema = file.schema_arrow
            names = [item.name for item in schema][:_PREVIEW_COLUMNS]
            batch = next(file.iter_batches(batch_size=_PREVIEW_ROWS, columns=names), None)
    except (OSError, pa.ArrowException, Refused):
        return None
    if batch is None:
        return None
    rows = [[_cell_text(record[name]) for name in names] for record in batch.to_pylist()]
    tables = {entry["dataset"]: entry for entry in (row.result or {}).get("tables") or []}
    table = tables.get(chosen.get("dataset"))
    if table is None:
        rows = _hide_messages(row, names, rows)
    else:
        name, rights = f"{table['schema']}.{table['table']}", withheld(row.slot, name=row.slot_name)
        rows = shown_cells(name, names, rows, rights, _source_names(schema))
        if not rights.hides(name):
            viewed(
                tables=[name], rows=len(rows), subject=f"export {row.pk}",
                source_id=row.slot.source_id if row.slot else None,
            )  # fmt: skip
    return Preview(path=str(chosen["path"]), columns=names, rows=rows)


def _hide_messages(
    row: Export, names: list[str], rows: list[list[str | None]]
) -> list[list[str | None]]:
    """Return transactions or events without the values of messages that the reader may not see."""
    if not current_visibility().hides_messages(row.slot.source_id if row.slot else 0):
        return rows
    return [
        [
            NO_RIGHT if name in _MESSAGE_COLUMNS and value is not None else value
            for name, value in zip(names, cells, strict=True)
        ]
        for cells in rows
    ]


def _source_names(schema: pa.Schema) -> dict[str, str]:
    """Return the name on the source by the column's name in the file."""
    file_names = file_columns(schema) if b"replview" in (schema.metadata or {}) else {}
    return {file_name: source_name for source_name, file_name in file_names.items()}


def _cell_text(value: object) -> str | None:
    if value is None:
        return None
    return shortened(value.hex() if isinstance(value, bytes) else str(value), _CELL_CHARACTERS)
