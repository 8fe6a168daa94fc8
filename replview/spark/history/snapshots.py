"""A table as it was: all rows that lived at one moment, by the latest change of each key."""

import datetime as dt
from typing import TYPE_CHECKING, Any

from decoder.scalars import LSN
from replview.parquet.slice_schemas import Column
from replview.parquet.slices import TableVersion
from replview.spark.history.datasets import Dataset
from replview.spark.history.reach import Moment, Reach, doubts, read_reach
from replview.spark.history.results import Result
from replview.spark.history.row_intervals import (
    GONE,
    NEXT,
    PLACE,
    STREAM,
    Truncation,
    Unsent,
    in_epochs,
    key_names,
    placed,
    with_intervals,
)
from replview.spark.quoting import tick

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

#: What stands beside a row's columns: the change that left it so.
MARKS = ("_commit_version", "_commit_timestamp", "_seq", "_xid", "_actor", "_relation_version")


def as_of(
    spark: "SparkSession", dataset: Dataset,
    *, lsn: int | None = None, time: dt.datetime | None = None,
) -> Result:  # fmt: skip
    """The table after all that had committed at or before a commit LSN, or by a time; else at the
    end of what is exported.

    Rows: the columns of the shape in force then, and ``_commit_version bigint, _commit_timestamp
    timestamp, _seq int, _xid bigint, _actor string, _relation_version int`` of the change that left
    the row so, ``_pg_raw map<string, string>`` (the text of values that their column cannot hold),
    ``_unknown array<string>`` (columns whose value nobody sent: null in their column).

    It begins with the last baseline or truncation before the moment; without one it is not
    ``complete``. Raises ``SparkProblem`` where rows cannot be told apart.
    """
    moment = Moment(lsn, time)
    keys = dataset.keys()
    reach = read_reach(spark, dataset, keys, moment)
    base = reach.base
    rows = placed(dataset.changes(spark, until_lsn=lsn, until=time), keys)
    rows = named(_after(rows, base), keys)
    unsent = Unsent(dataset, reach.unsent)
    if reach.unsent:
        moves = some_move_unsent(rows, keys)
        frame = unsent.filled(with_intervals(in_epochs(rows, ()), keys), keys, moves=moves)
        frame = frame.where(frame[NEXT].isNull() & ~frame[GONE])
    else:
        frame = _latest(rows, keys)
    version = dataset.version(reach.version)
    reasons = doubts(spark, dataset, reach, moment, None if base is None else base[0])
    chosen = filled_rows(frame, dataset, dataset.columns_of(version), unsent).select(
        *(tick(column.name) for column in dataset.columns_of(version)),
        *MARKS, "_pg_raw", "_unknown",
    )  # fmt: skip
    return Result(chosen, not reasons, tuple(reasons), _said(dataset, reach, version))


def _said(dataset: Dataset, reach: Reach, version: TableVersion) -> dict[str, Any]:
    """What else is worth saying of a snapshot."""
    base = reach.base
    return {
        "table": dataset.name,
        "life": dataset.incarnation.name,
        "shape": version.number,
        "key": list(version.key_columns),
        "begins": None if base is None else {
            "lsn": str(LSN(base[0])), "with": "baseline" if base[1] < 0 else "truncation",
        },
        "last_commit_lsn": None if reach.last is None else str(LSN(reach.last)),
    }  # fmt: skip


def filled_rows(
    frame: "DataFrame", dataset: Dataset, columns: list[Column], unsent: Unsent
) -> "DataFrame":
    """Rows with the last known values in their columns, and ``_unknown``."""
    from pyspark.sql import functions as F

    number = {column.source_name: n for n, column in enumerate(unsent.columns)}
    values: dict[str, Any] = {}
    texts: list[Expression] = []
    unknown: list[Expression] = []
    for column in columns:
        lacking = dataset.lacking(column)
        missing = F.col("_relation_version").isin(lacking) if lacking else F.lit(False)
        if column.source_name in number:
            known = F.col(unsent.known(number[column.source_name]))
            values[column.name] = known["value"]
            texts.append(F.struct(F.lit(column.source_name).alias("key"), known["raw"]))
            missing = missing | known.isNull()
        if column.source_name in number or lacking:
            unknown.append(F.when(missing, F.lit(column.source_name)))
    names = F.array(*unknown) if unknown else F.array().cast("array<string>")
    frame = frame.withColumn("_unknown", F.array_compact(names))
    if values:
        found = F.filter(F.array(*texts), lambda one: one["raw"].isNotNull())
        more = F.map_filter("_pg_raw", lambda key, _: ~key.isin(list(number)))
        frame = frame.withColumn("_pg_raw", F.map_concat(more, F.map_from_entries(found)))
        frame = frame.withColumns(values)
    return frame


def some_move_unsent(rows: "DataFrame", keys: list[Column]) -> bool:
    """Whether some update moved its row to another key without sending all of it."""
    from pyspark.sql import functions as F

    names = key_names(keys)
    at = ["_commit_version", "_seq"]
    moved = rows.where(
        (F.col("_change_type") == "update_postimage") & (F.size("_not_sent") > 0)
    ).select(*at, F.struct(*names).alias("now"))
    before = rows.where(F.col("_change_type") == "update_preimage").select(
        *at, F.struct(*names).alias("before")
    )
    return not moved.join(before, at).where(~F.col("now").eqNullSafe(F.col("before"))).isEmpty()


def _after(rows: "DataFrame", base: Truncation | None) -> "DataFrame":
    """What counts from a place on at which all rows are known."""
    from pyspark.sql import functions as F

    if base is None:
        return rows
    lsn, seq = base
    version = F.col("_commit_version")
    if seq < 0:  # a baseline
        return rows.where(version >= lsn)
    later = (version > lsn) | ((version == lsn) & (F.col(STREAM) == 1) & (F.col("_seq") > seq))
    return rows.where((version >= lsn) & later)


def named(rows: "DataFrame", keys: list[Column]) -> "DataFrame":
    """Only rows that say which row they are of."""
    from pyspark.sql import functions as F

    return rows.where(F.coalesce(*(F.col(n).cast("string") for n in key_names(keys))).isNotNull())


def _latest(rows: "DataFrame", keys: list[Column]) -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    newest = Window.partitionBy(*key_names(keys)).orderBy(*(F.col(name).desc() for name in PLACE))
    last = rows.withColumn("_number", F.row_number().over(newest)).where("_number = 1")
    return last.where(F.col("_change_type").isin("insert", "update_postimage"))
