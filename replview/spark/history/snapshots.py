"""Compute a table as of a moment, every state of its rows, and its versions."""

# All names in SQL are ours, and values of others are literals.
# ruff: noqa: S608

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from decoder.scalars import LSN
from replview.parquet.slice_schemas import TIMESTAMPTZ, SliceColumn
from replview.parquet.slices import TableVersion
from replview.spark.history.change_sql import value_of
from replview.spark.history.datasets import Dataset
from replview.spark.history.engines import DataFrame, Session, made
from replview.spark.history.reach import (
    Reach,
    TruncationPosition,
    doubts,
    read_reach,
    span_doubts,
)
from replview.spark.history.results import Result
from replview.spark.history.row_states import replayed
from replview.spark.history.spans import END, WHOLE, HistoryEnd, HistoryRange
from replview.spark.quoting import shared_literal

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
    changes = session.sql(
        f"SELECT * FROM {{changes}} WHERE {_after(base)}", changes=dataset.changes(session, moment)
    )
    columns = dataset.columns_of(version)
    found = replayed(session, dataset, changes, reach.truncations, columns)
    frame = _chosen(session, dataset, columns, {name: name for name in MARKS}, found.lasting)
    reasons = doubts(session, dataset, reach, moment, None if base is None else base[0])
    reasons += found.reasons
    return Result(frame, not reasons, tuple(reasons), _details(dataset, reach, version))


def _chosen(
    session: Session, dataset: Dataset, columns: Sequence[SliceColumn], marks: Mapping[str, str],
    rows: DataFrame,
) -> DataFrame:  # fmt: skip
    """Return these columns of replayed rows under their own names, then marks given in SQL."""
    unknown = "unknown"
    for column in dataset.columns:
        if column not in columns:
            unknown = f"array_remove({unknown}, {shared_literal(column.source_name)})"
    values = [value_of(dataset, column) for column in columns]
    chosen = ", ".join([*values, *marks.values(), "_pg_raw", unknown])
    frame = session.sql(f"SELECT {chosen} FROM {{rows}}", rows=rows)
    return frame.toDF(*(column.name for column in columns), *marks, "_pg_raw", "_unknown")


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


def _after(base: TruncationPosition | None) -> str:
    """Return the SQL condition for a change after a place at which all rows are known."""
    if base is None:
        return "true"
    lsn, seq = base
    if seq < 0:  # a baseline
        return f"_commit_version >= {lsn}"
    is_later = f"_commit_version = {lsn} AND _xid IS NOT NULL AND _seq > {seq}"
    return f"(_commit_version > {lsn} OR {is_later})"


#: Columns beside a row's own in ``row_versions``.
VERSION_MARKS = {
    "valid_from": "_commit_timestamp", "valid_to": "to_time",
    "_from_version": "_commit_version", "_to_version": "to_version",
    "_is_current": "ended_by IS NULL", "_ended_by": "ended_by",
    **{name: name for name in ("_change_type", "_seq", "_xid", "_actor", "_relation_version")},
}  # fmt: skip
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
    # The states that outlived their transaction.
    states = session.sql(
        """
        SELECT * FROM {rows} WHERE is_state
            AND NOT coalesce(to_version = _commit_version AND stream = 1, false)
        """,
        rows=found.frame,
    )
    frame = _chosen(session, dataset, columns, VERSION_MARKS, states)
    begins = [reach.first_baseline, *cuts["_commit_version"][:1].to_pylist()]
    first = min((lsn for lsn in begins if lsn is not None), default=None)
    reasons = [*doubts(session, dataset, reach, moment, first), *found.reasons]
    details = {
        **dataset.described, **_retyped(dataset), "incarnation": dataset.incarnation.name,
        "key": list(dataset.version(reach.version).key_columns),
        "whole_from_lsn": None if first is None else str(LSN(first)),
    }  # fmt: skip
    return Result(frame, not reasons, tuple(reasons), details)


def schema_versions(session: Session, dataset: Dataset, span: HistoryRange = WHOLE) -> Result:
    """Return the versions under which changes in the span were made, in order.

    Rows: ``version int, first_commit_lsn, last_commit_lsn string, first_change, last_change
    timestamp, changes bigint, added, removed, retyped array<string>`` (compared with the row
    before; ``name: type → type``), ``key_columns array<string>, replica_identity string, columns
    array<string>`` (``name type``). A version that came back is one row, from its first change to
    its last.
    """
    found = session.sql(
        f"""
        SELECT _relation_version, min(_commit_version) AS first_lsn,
            max(_commit_version) AS last_lsn, min(_commit_timestamp) AS first_change,
            max(_commit_timestamp) AS last_change, count(*) AS changes
        FROM {{changes}}
        WHERE {span.within(time="_commit_timestamp")} AND _change_type <> 'update_preimage'
        GROUP BY _relation_version ORDER BY min((_commit_version, _seq))
        """,
        changes=dataset.changes(session, END),
    ).collect()
    details: list[Any] = []
    before: TableVersion | None = None
    for number, *ends, first_change, last_change, changes in found:
        version = dataset.version(number)
        details.append((
            version.number, *(None if end is None else str(LSN(end)) for end in ends),
            first_change, last_change, changes,
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
