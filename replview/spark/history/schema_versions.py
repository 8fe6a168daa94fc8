"""The shapes that a table had, and from when to when changes were made under each."""

from typing import TYPE_CHECKING, Any

from decoder.scalars import LSN
from replview.parquet.slices import TableVersion
from replview.spark.history.datasets import Dataset
from replview.spark.history.results import Result
from replview.spark.history.spans import Span, span_doubts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA = (
    "version int, first_commit_lsn string, last_commit_lsn string, first_change timestamp, "
    "last_change timestamp, changes bigint, added array<string>, removed array<string>, "
    "retyped array<string>, key_columns array<string>, replica_identity string, "
    "columns array<string>"
)


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
    told: list[Any] = []
    before: TableVersion | None = None
    for row in found:
        version = dataset.version(row["_relation_version"])
        ends = [None if row[name] is None else str(LSN(row[name])) for name in ("first", "last")]
        told.append((
            version.number, *ends, row["first_change"], row["last_change"], row["changes"],
            *_differences(before, version), list(version.key_columns), version.replica_identity,
            [f"{name} {kind}" for name, kind in _types(version).items()],
        ))  # fmt: skip
        before = version
    reasons = span_doubts(spark, dataset.life, span or Span(), [dataset])
    frame = spark.createDataFrame(told, _SCHEMA)
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
