"""How much changes: in a table, in which of its rows most, and in transactions."""

from typing import TYPE_CHECKING, Any

from replview.spark.history.datasets import Dataset, Incarnation
from replview.spark.history.reach import Moment
from replview.spark.history.results import Result
from replview.spark.history.row_intervals import key_names, placed
from replview.spark.history.snapshots import named
from replview.spark.history.spans import Span, span_doubts
from replview.spark.quoting import tick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PERCENTILES = (0.5, 0.9, 0.95, 0.99)


def churn(
    spark: "SparkSession", dataset: Dataset, span: Span | None = None, *, every: str = "hour"
) -> Result:
    """Changes of a table in each minute, hour, day, week or month (UTC) that has some.

    Rows: ``period timestamp, inserts bigint, updates bigint, deletes bigint, changes bigint,
    transactions bigint, actors bigint`` (counted), and where rows have a key ``changed_rows
    bigint`` (about: different keys). Baselines are no changes.
    """
    from pyspark.sql import functions as F

    changes = _changes(spark, dataset, span or Span())
    counts: list[Any] = [*_counts(), F.count_distinct("_commit_version").alias("transactions")]
    counts.append(F.count_distinct("_actor").alias("actors"))
    key = key_names(dataset.keys()) if dataset.tells_rows_apart else []
    if key:
        changes = placed(changes, dataset.keys())
        counts.append(F.approx_count_distinct(F.struct(*key)).alias("changed_rows"))
    period = F.date_trunc(every, "_commit_timestamp").alias("period")
    frame = changes.groupBy(period).agg(*counts).orderBy("period")
    reasons = span_doubts(spark, dataset.incarnation, span or Span(), [dataset])
    return Result(frame, not reasons, reasons, {"table": dataset.name, "every": every})


def hot_rows(
    spark: "SparkSession", dataset: Dataset, span: Span | None = None, *, top: int = 20
) -> Result:
    """The rows that changed most often.

    Rows, most changes first: the key's columns, ``inserts, updates, deletes, changes bigint,
    actors bigint, first_change, last_change timestamp``. Raises ``SparkProblem`` where rows cannot
    be told apart.
    """
    from pyspark.sql import functions as F

    keys = dataset.keys()
    changes = named(placed(_changes(spark, dataset, span or Span()), keys), keys)
    frame = (
        changes.groupBy(*key_names(keys))
        .agg(
            *_counts(),
            F.count_distinct("_actor").alias("actors"),
            F.min("_commit_timestamp").alias("first_change"),
            F.max("_commit_timestamp").alias("last_change"),
        )
        .orderBy(F.col("changes").desc(), *key_names(keys))
        .limit(top)
    )
    shown = [F.col(f"_key{n}").alias(column.name) for n, column in enumerate(keys)]
    more = ("inserts", "updates", "deletes", "changes", "actors", "first_change", "last_change")
    names = [column.name for column in keys]
    frame = frame.select(*shown, *(F.col(tick(name)) for name in more))
    reasons = span_doubts(spark, dataset.incarnation, span or Span(), [dataset])
    return Result(frame, not reasons, reasons, {"table": dataset.name, "key": names})


def _changes(spark: "SparkSession", dataset: Dataset, span: Span) -> "DataFrame":
    """One row a change of the stream."""
    from pyspark.sql import functions as F

    moment = Moment(span.to_lsn, span.until)
    rows = dataset.changes(spark, until_lsn=moment.lsn, until=moment.time)
    rows = span.since_of(rows, time="_commit_timestamp")
    return rows.where(F.col("_xid").isNotNull() & (F.col("_change_type") != "update_preimage"))


def _counts() -> list[Any]:
    from pyspark.sql import functions as F

    kind = F.col("_change_type")
    return [
        F.count_if(kind == "insert").alias("inserts"),
        F.count_if(kind == "update_postimage").alias("updates"),
        F.count_if(kind == "delete").alias("deletes"),
        F.count("*").alias("changes"),
    ]


def transaction_sizes(
    spark: "SparkSession", incarnation: Incarnation, span: Span | None = None
) -> Result:
    """Percentiles of what a transaction holds, exact.

    Rows, one each for ``changes`` and ``size_bytes`` (of its messages): ``measure string,
    transactions bigint, mean double, p50 … p99 double, largest bigint, total bigint, largest_xid
    bigint`` (the xid of the largest).
    """
    from pyspark.sql import functions as F

    found = _committed(spark, incarnation, span)
    both = found.select(
        "xid",
        F.explode(F.create_map(F.lit("changes"), "changes", F.lit("size_bytes"), "size_bytes"))
        .alias("measure", "value"),
    )  # fmt: skip
    shares = F.percentile("value", F.array(*map(F.lit, _PERCENTILES)))
    frame = (
        both.groupBy("measure")
        .agg(
            F.count("*").alias("transactions"),
            F.avg("value").alias("mean"),
            shares.alias("shares"),
            F.max("value").alias("largest"),
            F.sum("value").alias("total"),
            F.max_by("xid", "value").alias("largest_xid"),
        )
        .orderBy("measure")
    )
    percentiles = [
        F.col("shares")[n].alias(f"p{share * 100:.0f}") for n, share in enumerate(_PERCENTILES)
    ]
    chosen = ("largest", "total", "largest_xid")
    frame = frame.select("measure", "transactions", "mean", *percentiles, *chosen)
    reasons = span_doubts(spark, incarnation, span or Span())
    return Result(frame, not reasons, reasons, {"life": incarnation.name})


def transaction_rates(
    spark: "SparkSession",
    incarnation: Incarnation,
    span: Span | None = None,
    *,
    every: str = "minute",
) -> Result:
    """Transactions committed in each minute (hour, day …; UTC) that has some.

    Rows: ``period timestamp, transactions bigint, changes bigint, size_bytes bigint, largest
    bigint`` (changes of the largest), ``actors bigint``.
    """
    from pyspark.sql import functions as F

    frame = (
        _committed(spark, incarnation, span)
        .groupBy(F.date_trunc(every, "commit_time").alias("period"))
        .agg(
            F.count("*").alias("transactions"),
            F.sum("changes").alias("changes"),
            F.sum("size_bytes").alias("size_bytes"),
            F.max("changes").alias("largest"),
            F.count_distinct("actor").alias("actors"),
        )
        .orderBy("period")
    )
    reasons = span_doubts(spark, incarnation, span or Span())
    return Result(frame, not reasons, reasons, {"life": incarnation.name, "every": every})


def _committed(spark: "SparkSession", incarnation: Incarnation, span: Span | None) -> "DataFrame":
    """The stream's transactions: neither baselines nor messages outside of any."""
    from pyspark.sql import functions as F

    counted: Any = F.col("inserts") + F.col("updates") + F.col("deletes") + F.col("truncates")
    found = incarnation.transactions(spark).where(F.col("state") == "committed")
    return (span or Span()).of(found, time="commit_time").withColumn("changes", counted)
