"""The first rows of what an export wrote, for whoever wants to see that it is there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replview.access.withheld import shown_cells, withheld
from replview.parquet.archive.images import file_columns
from replview.store.models import Export
from replview.store.read.visibility import NO_RIGHT, current_sight
from replview.store.write.access_record import viewed
from replview.targets.policy import Refused, read_policy
from replview.targets.targets import check_again

_ROWS = 8
_COLUMNS = 12
_TEXT = 80
#: What logical messages tell.
_OF_MESSAGES = ("context", "content", "content_base64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A few cells."""

    path: str
    columns: list[str]
    rows: list[list[str | None]]


def preview_of(row: Export) -> Preview | None:
    """Of its first table's first file; None where the files are not on this machine any more."""
    files = [one for one in (row.result or {}).get("files") or [] if one.get("rows")]
    if not files or "://" in row.target:
        return None
    # A table's rows say more than the transactions'.
    chosen = next((f for f in files if "." in str(f.get("dataset", "")).rpartition("/")[2]), None)
    chosen = chosen or files[0]
    path = Path(row.target) / str(chosen["path"])
    try:
        check_again(row.target, read_policy(), anywhere=row.anywhere)
        if not path.resolve().is_relative_to(Path(row.target).resolve()):
            return None
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            names = [item.name for item in schema][:_COLUMNS]
            batch = next(file.iter_batches(batch_size=_ROWS, columns=names), None)
    except (OSError, pa.ArrowException, Refused):
        return None
    if batch is None:
        return None
    rows = [[_cell(record[name]) for name in names] for record in batch.to_pylist()]
    tables = {one["dataset"]: one for one in (row.result or {}).get("tables") or []}
    table = tables.get(chosen.get("dataset"))
    if table is None:
        rows = _without_messages(row, names, rows)
    else:
        name, of = f"{table['schema']}.{table['table']}", withheld(row.slot, name=row.slot_name)
        rows = shown_cells(name, names, rows, of, _names(schema))
        if not of.hides(name):
            viewed(
                tables=[name], rows=len(rows), subject=f"export {row.pk}",
                source_id=row.slot.source_id if row.slot else None,
            )  # fmt: skip
    return Preview(path=str(chosen["path"]), columns=names, rows=rows)


def _without_messages(
    row: Export, names: list[str], rows: list[list[str | None]]
) -> list[list[str | None]]:
    """Transactions or events, without what messages told where whoever looks may see none."""
    if not current_sight().hides_messages(row.slot.source_id if row.slot else 0):
        return rows
    return [
        [
            NO_RIGHT if name in _OF_MESSAGES and value is not None else value
            for name, value in zip(names, cells, strict=True)
        ]
        for cells in rows
    ]


def _names(schema: pa.Schema) -> dict[str, str]:
    """A column in the file → on its source."""
    metadata = schema.metadata or {}
    if b"replview" not in metadata:
        return {}
    return {file: source for source, file in file_columns(schema).items()}


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
