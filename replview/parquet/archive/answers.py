"""What is asked of the archive and given back, and where in a slice it can stand."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from decoder.scalars import LSN
from replview.parquet.archive.images import ArchivedChange, file_columns
from replview.parquet.pg_values import convert


@dataclass(frozen=True, slots=True)
class ArchivedTransaction:
    """A transaction and some of its changes."""

    #: As ``slice_schemas.TRANSACTIONS``.
    facts: Mapping[str, Any]
    changes: Sequence[ArchivedChange]
    #: There are more after the last of them.
    more: bool


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Some changes of a row, the newest first."""

    changes: Sequence[ArchivedChange]
    #: Where older ones begin; None: there are none.
    older: str | None
    #: How far back was looked, where that took too long.
    searched_back_to: dt.date | None = None


def files_of(manifest: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """In the order of history, as far as one dataset goes."""
    return [file for file in manifest["files"] if file["kind"] == kind]


def oid_of(manifest: Mapping[str, Any], file: Mapping[str, Any]) -> int | None:
    of = (table["oid"] for table in manifest["tables"] if table["dataset"] == file["dataset"])
    return next(of, None)


def key_filter(schema: pa.Schema, key: Mapping[str, str | None]) -> pc.Expression | None:
    """Rows with this key; None: the file cannot have any."""
    names = file_columns(schema)
    where: pc.Expression | None = None
    for column, text in key.items():
        if column not in names:
            return None
        field = pc.field(names[column])
        if text is None:
            one = field.is_null()
        else:
            converted = convert([text], schema.field(names[column]).type)
            if converted.raw:
                # A value that its type cannot hold is no key one could look for.
                return None
            one = field == converted.array[0]
        where = one if where is None else where & one
    return where


def lsn_of(text: str | None) -> int:
    """As a number; 0 where there is none."""
    return 0 if text is None else int(LSN.parse(text))


def day_of(file: Mapping[str, Any]) -> dt.date | None:
    """The day of its commits; None: of no known time."""
    day = file["commit_date"]
    return None if day is None else dt.date.fromisoformat(day)


def parse_cursor(cursor: str | None) -> tuple[int | None, int, int]:
    """The slice, the files and the changes of the next one that were given already."""
    parts = (cursor or "").split(".")
    if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1]), int(parts[2])
    return None, 0, 0
