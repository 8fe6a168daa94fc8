"""Show a job's result as a table or as JSON, or write it as Parquet, without masked values."""

import base64
import datetime as dt
import decimal
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import orjson
import pyarrow as pa

from replview.parquet.writing.targets import Target, test_write
from replview.spark.history.datasets import Dataset
from replview.spark.history.engines import DataFrame, by_batch, write_parquet
from replview.spark.sessions import SparkProblem, missing_connector

#: Names of Spark's exceptions, with and without Spark Connect.
_SPARKS_OWN = (
    "Py4JJavaError", "SparkRuntimeException", "SparkException", "SparkConnectGrpcException",
    "AnalysisException",
)  # fmt: skip
#: Longer values are cut in a table.
_WIDEST = 40
_MARK = '{"$masked":true}'


@dataclass(frozen=True)
class Result:
    """The rows of a result, computed when they are read."""

    frame: DataFrame
    #: True when the export has everything that the rows depend on.
    complete: bool = True
    #: The reasons when it has not.
    reasons: tuple[str, ...] = ()
    #: Further facts about the result, as plain values.
    details: Mapping[str, Any] = field(default_factory=dict)


def check_output(url: str, spark: str | None) -> None:
    """Check that rows may be written there, before they are computed.

    Raises ``SparkProblem``, ``TargetProblem``.
    """
    target = _empty(url)
    # To other targets Spark writes itself, maybe on other machines and with other rights.
    if target.is_local and (spark or "local").startswith("local"):
        test_write(target)


def _empty(url: str) -> Target:
    target = Target.of(url)
    if target.files() or target.folders():
        raise SparkProblem("the folder of --output is not empty", "name another one")
    return target


def write(result: Result, url: str) -> str:
    """Write all rows as Parquet into an empty folder; return its address.

    Raises ``SparkProblem``, ``TargetProblem``.
    """
    target = _empty(url)
    try:
        return write_parquet(result.frame, target)
    except Exception as error:
        if (missing := missing_connector(error)) is not None:
            raise missing from error
        if type(error).__name__ in _SPARKS_OWN:
            raise SparkProblem(
                f"Spark cannot write there ({condition_of(error)})",
                "check the address, and the rights there",
            ) from error
        raise


def condition_of(error: Exception) -> str:
    """Return Spark's error condition such as ``PATH_ALREADY_EXISTS``; the text may have values."""
    named = re.match(r"\s*\[([A-Z0-9_.]+)\]", str(error))
    return named[1] if named else type(error).__name__


def as_json(result: Result, limit: int) -> str:
    """Return ``{"columns", "rows", "more", "complete", "reasons", "details"}`` as JSON."""
    document = dict(zip(("columns", "rows", "more"), shown_rows(result, limit), strict=True))
    doubts = {"complete": result.complete, "reasons": result.reasons}
    return orjson.dumps({**document, **doubts, "details": dict(result.details)}).decode()


def as_table(result: Result, limit: int) -> str:
    """Return the rows as a table of text."""
    columns, rows, more = shown_rows(result, limit)
    texts = [columns, *([_text(value) for value in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*texts, strict=True)]
    numeric = [
        all(isinstance(row[n], int | float | None) and not isinstance(row[n], bool) for row in rows)
        for n in range(len(columns))
    ]
    lines = [_line(row, widths, numeric) for row in texts]
    lines.insert(1, "  ".join("─" * width for width in widths))
    if not rows:
        lines.append("(no rows)")
    if more:
        lines.append(f"… the first {len(rows)} rows: --limit shows more, --output writes all")
    if not result.complete:
        lines.append("")
        lines += [f"Not complete: {reason}." for reason in result.reasons]
    return "\n".join(lines)


def shown_rows(result: Result, limit: int) -> tuple[list[str], list[list[Any]], bool]:
    """Return columns, rows as plain values, and whether there are more."""
    found = result.frame.take(limit + 1)
    rows = [[plain(value) for value in row] for row in found[:limit]]
    return list(result.frame.columns), rows, len(found) > limit


def plain(value: object) -> Any:
    """Return a value as JSON can hold it, without rounding; large numbers stay exact."""
    match value:
        case bytes() | bytearray():
            return "\\x" + value.hex() if len(value) <= 1024 else base64.b64encode(value).decode()
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case decimal.Decimal() | dt.date():
            # This covers datetime too, whose str() has a space between day and time.
            return str(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: object) -> str:
    if value is None:
        return "∅"
    text = orjson.dumps(value).decode() if isinstance(value, dict | list) else str(value)
    # Replace control characters, which could control the terminal.
    text = "".join(c if unicodedata.category(c)[0] != "C" else "·" for c in text[: _WIDEST + 1])
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = zip(
        row, (w - _width(t) for w, t in zip(widths, row, strict=True)), numeric, strict=True
    )
    cells = [" " * n + text if right else text + " " * n for text, n, right in padded]
    return "  ".join(cells).rstrip()


def masked_of(dataset: Dataset, masked: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the masked columns of a table, under any name that it had."""
    return frozenset(column for name in dataset.names for column in masked.get(name, ()))


def without_masked(result: Result, dataset: Dataset, masked: Mapping[str, Sequence[str]]) -> Result:
    """Return the result without the values of the table's masked columns."""
    of = masked_of(dataset, masked)
    there = result.frame.columns
    mine = [c for c in dataset.columns if c.source_name in of and c.name in there]
    if not mine:
        return result
    names = {column.name: column.source_name for column in mine}
    frame = by_batch(result.frame, partial(_masked, names))
    return replace(result, frame=frame, details={**result.details, "masked": sorted(of)})


def _masked(names: Mapping[str, str], rows: pa.Table) -> pa.Table:
    """Return rows without the values of some columns, and marks in place of these values.

    ``names`` has each column's name on the source.
    """
    raw = rows["_pg_raw"].to_pylist() if "_pg_raw" in rows.column_names else []
    texts = [dict(each or ()) for each in raw]
    for name, source_name in names.items():
        index = rows.column_names.index(name)
        values = rows.column(index)
        for mine, has_value in zip(texts, values.is_valid().to_pylist(), strict=bool(texts)):
            if mine.pop(source_name, None) is not None or has_value:
                mine[source_name] = _MARK
        rows = rows.set_column(index, name, pa.nulls(rows.num_rows, values.type))
    if not raw:
        return rows
    index = rows.column_names.index("_pg_raw")
    marked = pa.array([[*each.items()] for each in texts], rows.column(index).type)
    return rows.set_column(index, "_pg_raw", marked)
