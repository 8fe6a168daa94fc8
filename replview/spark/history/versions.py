"""Every state that rows have had, from when to when (a slowly changing dimension of type 2), and
the shapes of their table.
"""

import datetime as dt
from typing import TYPE_CHECKING, Any

from decoder.scalars import LSN
from replview.parquet.slice_schemas import Column
from replview.parquet.slices import TableVersion
from replview.spark.history.datasets import Dataset
from replview.spark.history.reach import Moment, Reach, doubts, read_reach
from replview.spark.history.results import Result
from replview.spark.history.row_intervals import (
    NEXT,
    STREAM,
    Unsent,
    by_key,
    in_epochs,
    placed,
    with_intervals,
)
from replview.spark.history.snapshots import filled_rows, named, some_move_unsent
from replview.spark.history.spans import Span, span_doubts
from replview.spark.quoting import tick

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession


#: What stands beside a row's columns.
MARKS = (
    "valid_from", "valid_to", "_from_version", "_to_version", "_is_current", "_ended_by",
    "_change_type", "_seq", "_xid", "_actor", "_relation_version",
)  # fmt: skip
_SCHEMA = (
    "version int, first_commit_lsn string, last_commit_lsn string, first_change timestamp, "
    "last_change timestamp, changes bigint, added array<string>, removed array<string>, "
    "retyped array<string>, key_columns array<string>, replica_identity string, "
    "columns array<string>"
)


def row_versions(
    spark: "SparkSession", dataset: Dataset,
    *, lsn: int | None = None, time: dt.datetime | None = None,
) -> Result:  # fmt: skip
    """Each state that a row had after a commit, up to a moment (see ``as_of``), else to the end.

    Rows: the columns of the shape in force at the moment, then ``valid_from, valid_to timestamp``
    (of the commits that made and ended it; ``valid_to`` null: it is the row now), ``_from_version,
    _to_version bigint`` (their LSNs: they, not times, give the order), ``_is_current boolean``,
    ``_ended_by string`` (update, delete, key change, truncate), ``_change_type string`` (insert or
    update_postimage: what made it), ``_seq int, _xid bigint, _actor string, _relation_version int,
    _pg_raw map<string, string>, _unknown array<string>``.

    A state that its own transaction ended is none: nobody else ever saw it. A baseline's row that
    only tells again what is known begins none. Raises ``SparkProblem`` where rows cannot be told
    apart.
    """
    moment, keys = Moment(lsn, time), dataset.keys()
    reach = read_reach(spark, dataset, keys, moment)
    rows = named(placed(dataset.changes(spark, until_lsn=lsn, until=time), keys), keys)
    rows = in_epochs(rows, reach.truncations)
    if reach.baselines:
        rows = _without_repeats(rows, dataset, keys, reach)
    rows = with_intervals(rows, keys)
    unsent = Unsent(dataset, reach.unsent)
    if reach.unsent:
        rows = unsent.filled(rows, keys, moves=some_move_unsent(rows, keys))
    columns = dataset.columns_of(dataset.version(reach.version))
    frame = filled_rows(_states(rows, reach), dataset, columns, unsent).select(
        *(tick(column.name) for column in columns), *MARKS, "_pg_raw", "_unknown"
    )
    first = min([lsn for lsn, _ in reach.truncations] + list(reach.baselines), default=None)
    reasons = doubts(spark, dataset, reach, moment, first)
    details = {
        "table": dataset.name,
        "life": dataset.incarnation.name,
        "key": [column.name for column in keys],
        "whole_from_lsn": None if first is None else str(LSN(first)),
    }
    return Result(frame, not reasons, tuple(reasons), details)


def _states(rows: "DataFrame", reach: Reach) -> "DataFrame":
    """Rows with what ended them; only those that outlived their transaction."""
    from pyspark.sql import functions as F

    following = F.col(NEXT)
    later = following["_commit_version"]
    ended = (
        F.when(following["_change_type"] == "delete", "delete")
        .when(F.col("_next_gone"), "key change")
        .when(following.isNotNull(), "update")
    )
    truncation = _truncation_after(reach)
    ends_at = F.coalesce(later, truncation["v"])
    end_time = F.coalesce(following["_commit_timestamp"], truncation["t"])
    by_truncation = F.when(later.isNull() & truncation["v"].isNotNull(), "truncate")
    rows = rows.where(F.col("_change_type").isin("insert", "update_postimage"))
    rows = rows.withColumns({
        "valid_from": F.col("_commit_timestamp"),
        "valid_to": end_time,
        "_from_version": F.col("_commit_version"),
        "_to_version": ends_at,
        "_is_current": ends_at.isNull(),
        "_ended_by": F.coalesce(ended, by_truncation),
    })  # fmt: skip
    same = (F.col("_to_version") == F.col("_from_version")) & (F.col(STREAM) == 1)
    return rows.where(~F.coalesce(same, F.lit(False)))


def _truncation_after(reach: Reach) -> "Expression":
    """The truncation that ends a row's epoch: ``struct<v, t>``, its fields null where none does."""
    from pyspark.sql import functions as F

    ends = [
        F.struct(F.lit(lsn).cast("bigint").alias("v"), F.lit(time).cast("timestamp").alias("t"))
        for (lsn, _), time in zip(reach.truncations, reach.truncated_at, strict=True)
    ]
    if not ends:
        return F.lit(None).cast("struct<v:bigint,t:timestamp>")
    return F.get(F.array(*ends), F.col("_epoch"))


def _without_repeats(
    rows: "DataFrame", dataset: Dataset, keys: list[Column], reach: Reach
) -> "DataFrame":
    """Without a baseline's rows that tell again what the change before them left."""
    from pyspark.sql import functions as F

    values = F.xxhash64(*(tick(column.name) for column in dataset.columns), F.lit(0))
    rows = rows.withColumn("_hash", values)
    window = by_key(keys, "_epoch")
    kind, before = F.lag("_change_type").over(window), F.lag("_hash").over(window)
    whole = F.size(F.lag("_not_sent").over(window)) == 0
    same = kind.isin("insert", "update_postimage") & (~whole | (before == F.col("_hash")))
    repeats = (F.col(STREAM) == 0) & F.coalesce(same, F.lit(False))
    return rows.withColumn("_repeats", repeats).where("NOT _repeats").drop("_hash", "_repeats")


def schema_versions(spark: "SparkSession", dataset: Dataset, span: Span | None = None) -> Result:
    """The shapes under which changes in the span were made, in the order they came.

    Rows: ``version int, first_commit_lsn, last_commit_lsn string, first_change, last_change
    timestamp, changes bigint, added, removed, retyped array<string>`` (against the row before;
    ``name: type → type``), ``key_columns array<string>, replica_identity string, columns
    array<string>`` (``name type``). A shape that came back is one row, from its first change to its
    last.
    """
    from pyspark.sql import functions as F

    rows = (span or Span()).of(dataset.changes(spark), time="_commit_timestamp")
    rows = rows.where(F.col("_change_type") != "update_preimage")
    found = (
        rows.groupBy("_relation_version")
        .agg(
            F.min("_commit_version").alias("first"),
            F.max("_commit_version").alias("last"),
            F.min("_commit_timestamp").alias("first_change"),
            F.max("_commit_timestamp").alias("last_change"),
            F.count("*").alias("changes"),
        )
        .orderBy("first")
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
    reasons = span_doubts(spark, dataset.incarnation, span or Span(), [dataset])
    frame = spark.createDataFrame(details, _SCHEMA)
    return Result(frame, not reasons, reasons, {"table": dataset.name})


def _types(version: TableVersion) -> dict[str, str]:
    return {str(each["name"]): str(each.get("type") or "") for each in version.columns}


def _differences(
    before: TableVersion | None, version: TableVersion
) -> tuple[list[str], list[str], list[str]]:
    """What came, what went, what became of another type."""
    if before is None:
        return [], [], []
    old, new = _types(before), _types(version)
    return (
        [name for name in new if name not in old],
        [name for name in old if name not in new],
        [f"{n}: {old[n]} → {new[n]}" for n in new if n in old and old[n] != new[n]],
    )
