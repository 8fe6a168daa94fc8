"""Transactions: how large they are, and how many in a minute."""

from typing import TYPE_CHECKING, Any

from replview.spark.history.datasets import Life
from replview.spark.history.results import Result
from replview.spark.history.spans import Span, span_doubts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PERCENTILES = (0.5, 0.9, 0.95, 0.99)


def transaction_sizes(spark: "SparkSession", life: Life, span: Span | None = None) -> Result:
    """Percentiles of what a transaction holds, exact.

    Rows, one each for ``changes`` and ``size_bytes`` (of its messages): ``measure string,
    transactions bigint, mean double, p50 … p99 double, largest bigint, total bigint, largest_xid
    bigint`` (the xid of the largest).
    """
    from pyspark.sql import functions as F

    found = _committed(spark, life, span)
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
    reasons = span_doubts(spark, life, span or Span())
    return Result(frame, not reasons, reasons, {"life": life.name})


def transaction_rates(
    spark: "SparkSession", life: Life, span: Span | None = None, *, every: str = "minute"
) -> Result:
    """Transactions committed in each minute (hour, day …; UTC) that has some.

    Rows: ``period timestamp, transactions bigint, changes bigint, size_bytes bigint, largest
    bigint`` (changes of the largest), ``actors bigint``.
    """
    from pyspark.sql import functions as F

    frame = (
        _committed(spark, life, span)
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
    reasons = span_doubts(spark, life, span or Span())
    return Result(frame, not reasons, reasons, {"life": life.name, "every": every})


def _committed(spark: "SparkSession", life: Life, span: Span | None) -> "DataFrame":
    """The stream's transactions: neither baselines nor messages outside of any."""
    from pyspark.sql import functions as F

    counted: Any = F.col("inserts") + F.col("updates") + F.col("deletes") + F.col("truncates")
    found = life.transactions(spark).where(F.col("state") == "committed")
    return (span or Span()).of(found, time="commit_time").withColumn("changes", counted)
