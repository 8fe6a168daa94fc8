"""Compute a table as of a moment, every state of its rows, and its versions."""

from itertools import pairwise
from typing import Any

import pyarrow as pa

from decoder.scalars import LSN
from replview.parquet.slice_schemas import TIMESTAMPTZ, SliceColumn
from replview.parquet.slices import TableVersion
from replview.spark.history.datasets import Dataset
from replview.spark.history.engines import DataFrame, Expression, F, Session, made
from replview.spark.history.reach import (
    Reach,
    TruncationPosition,
    doubts,
    read_reach,
    span_doubts,
)
from replview.spark.history.results import Result
from replview.spark.history.row_states import replayed, value_of
from replview.spark.history.spans import END, WHOLE, HistoryEnd, HistoryRange

#: Columns beside a row's own: the change that produced the row.
MARKS = ("_commit_version", "_commit_timestamp", "_seq", "_xid", "_actor", "_relation_version")


def as_of(session: Session, dataset: Dataset, moment: HistoryEnd = END) -> Result:
    """Return the table after all commits up to an LSN or time, else at the end of the export.

    Rows: the columns of the version in force then, and ``_commit_version bigint, _commit_timestamp
    timestamp, _seq int, _xid bigint, _actor string, _relation_version int`` of the change that
    produced the row, ``_pg_raw map<string, string>`` (the text of values that their column cannot
    hold), ``_unknown array<string>`` (columns whose value was never sent: null in their column).

    The table begins with the last baseline or truncation before the moment; without one it is not
    ``complete``. Raises ``SparkProblem`` if the table has no key.
    """
    reach = read_reach(session, dataset, moment)
    base, version = reach.base, dataset.version(reach.version)
    changes = _after(dataset.changes(session, moment), base)
    columns = dataset.columns_of(version)
    found = replayed(session, dataset, changes, reach.truncations, columns)
    values = [value_of(dataset, column).alias(column.name) for column in columns]
    frame = found.lasting.select(*values, *MARKS, "_pg_raw", _unknown(columns))
    reasons = doubts(session, dataset, reach, moment, None if base is None else base[0])
    reasons += found.reasons
    return Result(frame, not reasons, tuple(reasons), _details(dataset, reach, version))


def _unknown(columns: list[SliceColumn]) -> Expression:
    """Return the names of the columns whose value is unknown."""
    names = [column.source_name for column in columns]
    return F.filter(F.col("unknown"), lambda one: one.isin(names)).alias("_unknown")


def _details(dataset: Dataset, reach: Reach, version: TableVersion) -> dict[str, object]:
    """Return further facts about a snapshot."""
    base = reach.base
    return {
        **dataset.described, **_retyped(dataset),
        "incarnation": dataset.incarnation.name,
        "shape": version.number,
        "key": list(version.key_columns),
        "begins": None if base is None else {
            "lsn": str(LSN(base[0])), "with": "baseline" if base[1] < 0 else "truncation",
        },
        "last_commit_lsn": None if reach.last is None else str(LSN(reach.last)),
    }  # fmt: skip


def _after(rows: DataFrame, base: TruncationPosition | None) -> DataFrame:
    """Return the changes after a place at which all rows are known."""
    if base is None:
        return rows
    lsn, seq = base
    version = F.col("_commit_version")
    if seq < 0:  # a baseline
        return rows.where(version >= lsn)
    later = F.col("_xid").isNotNull() & (F.col("_seq") > seq)
    return rows.where((version >= lsn) & ((version > lsn) | later))


#: Columns beside a row's own in ``row_versions``.
VERSION_MARKS = (
    "valid_from", "valid_to", "_from_version", "_to_version", "_is_current", "_ended_by",
    "_change_type", "_seq", "_xid", "_actor", "_relation_version",
)  # fmt: skip
_TEXTS = pa.list_(pa.string())
_SCHEMA = pa.schema([
    ("version", pa.int32()), ("first_commit_lsn", pa.string()), ("last_commit_lsn", pa.string()),
    ("first_change", TIMESTAMPTZ), ("last_change", TIMESTAMPTZ), ("changes", pa.int64()),
    ("added", _TEXTS), ("removed", _TEXTS), ("retyped", _TEXTS), ("key_columns", _TEXTS),
    ("replica_identity", pa.string()), ("columns", _TEXTS),
])  # fmt: skip


def row_versions(session: Session, dataset: Dataset, moment: HistoryEnd = END) -> Result:
    """Return each state (SCD type 2) of a row after a commit, up to a moment or the end.

    Rows: the columns of the version in force at the moment, then ``valid_from, valid_to timestamp``
    (of the commits that began and ended the state; ``valid_to`` null: the current row),
    ``_from_version, _to_version bigint`` (their LSNs, which define the order), ``_is_current
    boolean``, ``_ended_by string`` (update, delete, key change, truncate; lost: the table's key
    changed, and the further history is unknown), ``_change_type string`` (insert or
    update_postimage: the change that began it), ``_seq int, _xid bigint, _actor string,
    _relation_version int, _pg_raw map<string, string>, _unknown array<string>``.

    A state that its own transaction ended is left out, since no other session saw it. A baseline's
    row that repeats a known state begins none. Raises ``SparkProblem`` if the table has no key.
    """
    reach = read_reach(session, dataset, moment)
    columns = dataset.columns_of(dataset.version(reach.version))
    changes, cuts = dataset.changes(session, moment), reach.truncations
    found = replayed(session, dataset, changes, cuts, columns)
    values = [value_of(dataset, column).alias(column.name) for column in columns]
    frame = _states(found.frame).select(*values, *VERSION_MARKS, "_pg_raw", _unknown(columns))
    first = min([*reach.baselines, *cuts["_commit_version"][:1].to_pylist()], default=None)
    reasons = [*doubts(session, dataset, reach, moment, first), *found.reasons]
    details = {
        **dataset.described, **_retyped(dataset), "incarnation": dataset.incarnation.name,
        "key": list(dataset.version(reach.version).key_columns),
        "whole_from_lsn": None if first is None else str(LSN(first)),
    }  # fmt: skip
    return Result(frame, not reasons, tuple(reasons), details)


def _states(rows: DataFrame) -> DataFrame:
    """Return the states that outlived their transaction."""
    same = (F.col("to_version") == F.col("_commit_version")) & (F.col("stream") == 1)
    return rows.where(F.col("is_state") & ~F.coalesce(same, F.lit(False))).withColumns({
        "valid_from": F.col("_commit_timestamp"),
        "valid_to": F.col("to_time"),
        "_from_version": F.col("_commit_version"),
        "_to_version": F.col("to_version"),
        "_is_current": F.col("ended_by").isNull(),
        "_ended_by": F.col("ended_by"),
    })  # fmt: skip


def schema_versions(session: Session, dataset: Dataset, span: HistoryRange = WHOLE) -> Result:
    """Return the versions under which changes in the span were made, in order.

    Rows: ``version int, first_commit_lsn, last_commit_lsn string, first_change, last_change
    timestamp, changes bigint, added, removed, retyped array<string>`` (compared with the row
    before; ``name: type → type``), ``key_columns array<string>, replica_identity string, columns
    array<string>`` (``name type``). A version that came back is one row, from its first change to
    its last.
    """
    rows = span.of(dataset.changes(session, END), time="_commit_timestamp")
    rows = rows.where(F.col("_change_type") != "update_preimage")
    found = (
        rows.groupBy("_relation_version")
        .agg(
            F.min("_commit_version").alias("first"),
            F.min(F.struct("_commit_version", "_seq")).alias("place"),
            F.max("_commit_version").alias("last"),
            F.min("_commit_timestamp").alias("first_change"),
            F.max("_commit_timestamp").alias("last_change"),
            F.count("*").alias("changes"),
        )
        .orderBy("place")
        .collect()
    )
    details: list[Any] = []
    before: TableVersion | None = None
    for row in found:
        version = dataset.version(row["_relation_version"])
        ends = [None if row[name] is None else str(LSN(row[name])) for name in ("first", "last")]
        details.append((
            version.number, *ends, row["first_change"], row["last_change"], row["changes"],
            *_differences(before, version), list(version.key_columns), version.replica_identity,
            [f"{name} {kind}" for name, kind in _types(version).items()],
        ))  # fmt: skip
        before = version
    reasons = span_doubts(session, dataset.incarnation, span, [dataset])
    frame = made(session, details, _SCHEMA)
    return Result(frame, not reasons, reasons, dataset.described)


def _retyped(dataset: Dataset) -> dict[str, object]:
    """Return columns that changed type; earlier values are as sent then, without ``USING``."""
    shapes = dataset.relation.versions
    found = [one for two in pairwise(shapes) for one in _differences(*two)[2]]
    return {"retyped": list(dict.fromkeys(found))} if found else {}


def _types(version: TableVersion) -> dict[str, str]:
    return {str(each["name"]): str(each.get("type") or "") for each in version.columns}


def _differences(
    before: TableVersion | None, version: TableVersion
) -> tuple[list[str], list[str], list[str]]:
    """Return the columns that were added, removed, and changed in type."""
    if before is None:
        return [], [], []
    old, new = _types(before), _types(version)
    return (
        [name for name in new if name not in old],
        [name for name in old if name not in new],
        [f"{n}: {old[n]} → {new[n]}" for n in new if n in old and old[n] != new[n]],
    )
